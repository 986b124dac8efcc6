"""What a request may say of constraints and tools. Pure; used by `generation_limits`.

Each check raises InvalidRequestError naming the field; none repeats what the caller wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgelora.errors import InvalidRequestError
from edgelora.v1.generation_pb2 import Constraint, Tool, ToolCall, ToolChoice, ToolUse
from services.chassis.json_schema import (
    Schema,
    check_pattern,
    read_json,
    read_schema,
)

MAX_TOOLS = 128
MAX_TOOLS_CHARS = 131_072
"""Of the schemas of all tools together."""
MAX_DESCRIPTION_CHARS = 1024
MAX_TOOL_CALLS = 32
"""Of one message, and of one answer."""
MAX_CALL_ID_CHARS = 64
MAX_REGEX_CHARS = 4096
MAX_LARK_CHARS = 32_768
CONSTRAINT_FIELD = "options.constraint"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NO_ARGUMENTS: Schema = {"type": "object", "properties": {}, "additionalProperties": False}


def check_constraint(constraint: Constraint) -> None:
    """Checks a constraint as far as that goes without compiling it."""
    kind = constraint.WhichOneof("kind")
    field = f"{CONSTRAINT_FIELD}.{kind}"
    match kind:
        case "json_object":
            if not constraint.json_object:
                raise _invalid(field, "must be true; leave the constraint out for any text")
        case "json_schema":
            read_schema(constraint.json_schema, field)
        case "regex":
            _check_given(constraint.regex, field)
            check_pattern(constraint.regex, field, max_chars=MAX_REGEX_CHARS)
        case "lark":
            _check_given(constraint.lark, field)
            check_pattern(constraint.lark, field, max_chars=MAX_LARK_CHARS)
        case _:
            raise _invalid(CONSTRAINT_FIELD, "needs one of json_object, json_schema, regex, lark")


def may_call(tools: ToolUse) -> bool:
    """Whether an answer may hold calls."""
    return bool(tools.tools) and tools.choice != ToolChoice.TOOL_CHOICE_NONE


def check_tools(tools: ToolUse) -> None:
    """Checks the tools of a request."""
    if len(tools.tools) > MAX_TOOLS:
        raise _invalid("tools", f"may hold at most {MAX_TOOLS} tools")
    if sum(len(tool.parameters_json) for tool in tools.tools) > MAX_TOOLS_CHARS:
        raise _invalid("tools", f"may have at most {MAX_TOOLS_CHARS} characters of parameters")
    names: set[str] = set()
    for index, tool in enumerate(tools.tools):
        field = f"tools.tools[{index}]"
        _check_name(tool.name, f"{field}.name")
        if tool.name in names:
            raise _invalid(f"{field}.name", "names a tool again")
        names.add(tool.name)
        if len(tool.description) > MAX_DESCRIPTION_CHARS or "\0" in tool.description:
            rule = f"may have at most {MAX_DESCRIPTION_CHARS} characters, none of them NUL"
            raise _invalid(f"{field}.description", rule)
        arguments_schema(tool, field)
    _check_choice(tools, names)


def arguments_schema(tool: Tool, field: str) -> Schema:
    """The schema of a tool's arguments, an object; closed unless it says otherwise.

    Raises InvalidRequestError where it is none. `field` is the tool's.
    """
    if not tool.parameters_json:
        return _NO_ARGUMENTS
    schema = read_schema(tool.parameters_json, f"{field}.parameters_json", are_formats_notes=True)
    if schema.setdefault("type", "object") != "object":
        raise _invalid(f"{field}.parameters_json", "must have the type object")
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def check_tool_calls(calls: Sequence[ToolCall], field: str) -> None:
    """Checks the calls of an assistant's message."""
    if len(calls) > MAX_TOOL_CALLS:
        raise _invalid(field, f"may hold at most {MAX_TOOL_CALLS} calls")
    for index, call in enumerate(calls):
        _check_name(call.name, f"{field}[{index}].name")
        check_call_id(call.id, f"{field}[{index}].id")
        arguments = f"{field}[{index}].arguments_json"
        if not isinstance(read_json(call.arguments_json, arguments), dict):
            raise _invalid(arguments, "must be a JSON object")


def check_call_id(call_id: str, field: str) -> None:
    """Checks the id of a call, which may be empty."""
    if len(call_id) > MAX_CALL_ID_CHARS or not call_id.isprintable():
        raise _invalid(field, f"may have at most {MAX_CALL_ID_CHARS} characters, all printable")


def _check_choice(tools: ToolUse, names: set[str]) -> None:
    choice = tools.choice
    if choice not in ToolChoice.values():
        raise _invalid("tools.choice", "must be auto, none, required or named")
    if choice == ToolChoice.TOOL_CHOICE_NAMED:
        if tools.name not in names:
            raise _invalid("tools.name", "must name one of the tools")
    elif tools.name:
        raise _invalid("tools.name", "goes with the choice named only")
    if choice == ToolChoice.TOOL_CHOICE_REQUIRED and not names:
        raise _invalid("tools.choice", "is required, which needs a tool")


def _check_name(name: str, field: str) -> None:
    if not _NAME.fullmatch(name):
        raise _invalid(field, 'must be 1 to 64 letters, digits, "_", "-" or "."')


def _check_given(text: str, field: str) -> None:
    if not text:
        raise _invalid(field, "must not be empty")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
