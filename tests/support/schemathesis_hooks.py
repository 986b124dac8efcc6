"""Makes some of what Schemathesis generates right in what a schema cannot say.

Loaded by `schemathesis run` itself: SCHEMATHESIS_HOOKS=tests.support.schemathesis_hooks.
"""

from __future__ import annotations

from typing import Any

import schemathesis

_MODEL = "stand-in"
_CLASSIFIER = "intents"
_ENCODING = ("/v1/embeddings", "/v1/classify", "/api/embed", "/api/embeddings")
_ADAPTERS = ("adapters", "adapter_strength", "fallback_adapter")


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """A model that there is, and a conversation that the user ends."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return body
    body = {name: value for name, value in body.items() if name not in _ADAPTERS}
    if context.operation.path in _ENCODING:
        return {**body, "model": _CLASSIFIER}
    body["model"] = _MODEL
    messages = body.get("messages")
    if isinstance(messages, list) and messages:
        body["messages"] = [{"role": "user", "content": "Hi."}]
    if isinstance(body.get("input"), list) and body["input"]:
        body["input"] = [{"role": "user", "content": "Hi."}]
    return body


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """No deadline that has passed before anything could be done: that is a 504, and right."""
    deadline_s = case.body.get("deadline_s") if isinstance(case.body, dict) else None
    if isinstance(deadline_s, float) and 0 < deadline_s < 1:
        del case.body["deadline_s"]
