"""From what a request asks for to a grammar of llguidance. Pure.

JSON comes without white space but for one blank behind each comma and colon, as the texts that
models learn from have it; white space without bound would let an answer go on for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from edgelora.v1.generation_pb2 import Constraint, ToolChoice, ToolUse
from services.chassis import tool_call_text
from services.chassis.json_schema import read_schema
from services.chassis.tool_limits import CONSTRAINT_FIELD, MAX_TOOL_CALLS, arguments_schema

_JSON_STYLE = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": False,
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar and the field of the request it stands in."""

    text: str
    """JSON, `TopLevelGrammar` of llguidance."""
    field: str


def constraint_grammar(constraint: Constraint) -> Grammar:
    """The grammar of a constraint that was checked."""
    kind = constraint.WhichOneof("kind")
    field = f"{CONSTRAINT_FIELD}.{kind}"
    match kind:
        case "json_object":
            return Grammar(_top({"json_schema": _styled({"type": "object"})}), field)
        case "json_schema":
            schema = _styled(read_schema(constraint.json_schema, field))
            return Grammar(_top({"json_schema": schema}), field)
        case "regex":
            return Grammar(
                _top({"lark_grammar": f"start: /{_in_slashes(constraint.regex)}/"}), field
            )
        case _:
            return Grammar(_top({"lark_grammar": constraint.lark}), field)


def tools_grammar(tools: ToolUse) -> Grammar:
    """The grammar of an answer that may, or has to, call tools.

    Free text ends where a call begins; behind the last call nothing follows.
    """
    is_named = tools.choice == ToolChoice.TOOL_CHOICE_NAMED
    offered = [
        (index, tool)
        for index, tool in enumerate(tools.tools)
        if not is_named or tool.name == tools.name
    ]
    is_free = tools.choice in (
        ToolChoice.TOOL_CHOICE_UNSPECIFIED,
        ToolChoice.TOOL_CHOICE_AUTO,
    )
    text = tool_call_text
    following = f"{_quoted(text.BETWEEN + text.OPEN)} call"
    calls = f"call ({following}){{0,{MAX_TOOL_CALLS - 1}}}" if tools.is_parallel else "call"
    rules = [
        "%llguidance {}",
        f"start: words | opening {calls}" if is_free else f"start: {_quoted(text.OPEN)} {calls}",
        f"call: {_quoted(text.BEFORE_NAME)} tool {_quoted(text.AFTER_ARGUMENTS + text.CLOSE)}",
        "tool: " + " | ".join(f"tool_{index}" for index, _ in offered),
    ]
    if is_free:
        rules += [
            "words: TEXT",
            f"opening[lazy]: TEXT {_quoted(text.OPEN)}",
            "TEXT: /(.|\\n)*/",
        ]
    for index, tool in offered:
        schema = _styled(arguments_schema(tool, f"tools.tools[{index}]"))
        beginning = _quoted(tool.name + text.BEFORE_ARGUMENTS)
        rules.append(f"tool_{index}: {beginning} %json {json.dumps(schema)}")
    return Grammar(_top({"lark_grammar": "\n".join(rules)}), "tools")


def _styled(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "x-guidance": _JSON_STYLE}


def _top(grammar: dict[str, Any]) -> str:
    return json.dumps({"grammars": [grammar]})


def _quoted(text: str) -> str:
    """A string literal of Lark."""
    return json.dumps(text)


def _in_slashes(regex: str) -> str:
    """A regular expression for between two slashes of one line."""
    pieces: list[str] = []
    is_escaped = False
    for character in regex:
        if character == "/" and not is_escaped:
            pieces.append("\\/")
        elif character == "\n":
            pieces.append("n" if is_escaped else "\\n")
        else:
            pieces.append(character)
        is_escaped = character == "\\" and not is_escaped
    return "".join(pieces)
