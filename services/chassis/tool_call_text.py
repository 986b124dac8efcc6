"""How a model writes the calls of tools: the form Qwen and Hermes models are trained on.

    <tool_call>
    {"name": "light_on", "arguments": {"room": "kitchen"}}
    </tool_call>

The worker's grammar lets calls have no other form, so what reads them need not guess.
"""

from __future__ import annotations

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
BEFORE_NAME = '\n{"name": "'
BEFORE_ARGUMENTS = '", "arguments": '
AFTER_ARGUMENTS = "}\n"
BETWEEN = "\n"
"""Between two calls."""


def call_text(name: str, arguments_json: str) -> str:
    """One call."""
    return OPEN + BEFORE_NAME + name + BEFORE_ARGUMENTS + arguments_json + AFTER_ARGUMENTS + CLOSE
