"""Makes some of what Schemathesis generates right in what a schema cannot say.

Loaded by `schemathesis run` itself: SCHEMATHESIS_HOOKS=tests.support.schemathesis_hooks.
"""

from __future__ import annotations

from typing import Any

import schemathesis

_MODEL = "stand-in"
_ADAPTERS = ("adapters", "adapter_strength", "fallback_adapter")


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """A model that there is, and a conversation that the user ends."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return body
    body = {name: value for name, value in body.items() if name not in _ADAPTERS}
    body["model"] = _MODEL
    messages = body.get("messages")
    if isinstance(messages, list) and messages:
        body["messages"] = [{"role": "user", "content": "Hi."}]
    if isinstance(body.get("input"), list) and body["input"]:
        body["input"] = [{"role": "user", "content": "Hi."}]
    return body
