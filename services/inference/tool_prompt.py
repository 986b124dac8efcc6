"""Tools in the prompt, for the model's own template and for templates that know no tools. Pure.

`Safe` makes what a user wrote harmless (see ChatTemplate); what is ours, such as the marks of
calls, is put around it afterwards and may be control tokens of the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgelora.v1.generation_pb2 import ChatMessage
from services.chassis.tool_call_text import CLOSE, OPEN, call_text

Safe = Callable[[str], str]
Turn = dict[str, Any]
"""A message as templates read it."""

_OFFER = """You can call these functions:
{functions}
To call one, answer with its name and arguments and nothing else:
{example}"""
_RESULT = "<tool_response>\n{content}\n</tool_response>"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model is told of it; the parameters are a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


def template_tools(tools: Sequence[OfferedTool], safe: Safe) -> list[dict[str, Any]]:
    """Tools as a template reads them that knows some."""
    return [{"type": "function", "function": _function(tool, safe)} for tool in tools]


def template_turn(message: ChatMessage, safe: Safe) -> Turn:
    """A message for a template that knows tools."""
    turn: Turn = {"role": message.role, "content": safe(message.content)}
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "id": safe(call.id),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": _safe_json(json.loads(call.arguments_json), safe),
                },
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        turn["tool_call_id"] = safe(message.tool_call_id)
    return turn


def plain_turns(
    messages: Sequence[ChatMessage], tools: Sequence[OfferedTool], safe: Safe
) -> list[Turn]:
    """Messages for a template that knows no tools: they are told in the system message, calls are
    the assistant's text, and their results the user's."""
    turns: list[Turn] = []
    if tools and messages[0].role != "system":
        turns.append({"role": "system", "content": _offer(tools, safe)})
    is_result = False
    for message in messages:
        turn = _plain_turn(message, safe)
        if tools and message.role == "system":
            turn["content"] += "\n\n" + _offer(tools, safe)
        if is_result and message.role == "tool":
            turns[-1]["content"] += "\n" + turn["content"]
        else:
            turns.append(turn)
        is_result = message.role == "tool"
    return turns


def _plain_turn(message: ChatMessage, safe: Safe) -> Turn:
    content = safe(message.content)
    if message.role == "tool":
        return {"role": "user", "content": _RESULT.format(content=content)}
    calls = [
        call_text(call.name, _dumped(_safe_json(json.loads(call.arguments_json), safe)))
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": "\n".join([content, *calls] if content else calls)}


def _offer(tools: Sequence[OfferedTool], safe: Safe) -> str:
    functions = "\n".join(_dumped(_function(tool, safe)) for tool in tools)
    example = f'{OPEN}\n{{"name": ..., "arguments": {{...}}}}\n{CLOSE}'
    return _OFFER.format(functions=functions, example=example)


def _function(tool: OfferedTool, safe: Safe) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": safe(tool.description),
        "parameters": _safe_json(tool.parameters, safe),
    }


def _safe_json(value: Any, safe: Safe) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, list):
        return [_safe_json(each, safe) for each in value]
    if isinstance(value, dict):
        return {safe(key): _safe_json(each, safe) for key, each in value.items()}
    return value


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
