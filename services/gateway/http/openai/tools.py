"""`tools`, `tool_choice` and `response_format` of a request."""

from __future__ import annotations

import json
from typing import Any

from edgelora.v1.generation_pb2 import Constraint, Tool, ToolChoice, ToolUse
from services.gateway.http.json_fields import Fields

_CHOICES = {
    "none": ToolChoice.TOOL_CHOICE_NONE,
    "auto": ToolChoice.TOOL_CHOICE_AUTO,
    "required": ToolChoice.TOOL_CHOICE_REQUIRED,
}


def read_tools(fields: Fields, *, is_nested: bool) -> ToolUse | None:
    """What the model may call; None where the request offers nothing.

    `is_nested`: a function is inside `function`, as in chat completions, and not beside `type`,
    as in responses. Raises InvalidRequestError.
    """
    listed = fields.children("tools")
    choice, name = _choice(fields, is_nested=is_nested)
    is_parallel = fields.boolean("parallel_tool_calls")
    if not listed:
        if choice not in (None, ToolChoice.TOOL_CHOICE_NONE, ToolChoice.TOOL_CHOICE_AUTO):
            raise fields.invalid("tool_choice", "needs tools to choose from")
        return None
    choice = choice or ToolChoice.TOOL_CHOICE_AUTO
    if is_parallel is None:
        # A small model that must call, and may go on, goes on until its tokens are used up.
        is_parallel = choice == ToolChoice.TOOL_CHOICE_AUTO
    return ToolUse(
        tools=[_tool(item, is_nested=is_nested) for item in listed],
        choice=choice,
        name=name,
        is_parallel=is_parallel,
    )


def tool_names(num_tools: int, *, is_nested: bool) -> dict[str, str]:
    """What the front door calls the fields of tools -> what the client called them."""
    holder = "function." if is_nested else ""
    names = {
        "tools.tools": "tools",
        "tools.choice": "tool_choice",
        "tools.name": f"tool_choice.{holder}name",
    }
    for index in range(num_tools):
        before, after = f"tools.tools[{index}].", f"tools[{index}].{holder}"
        names[before] = after
        names[f"{before}parameters_json"] = f"{after}parameters"
    return names


def read_response_format(fields: Fields, name: str, *, is_nested: bool) -> Constraint | None:
    """What the answer must look like; None for any text.

    `is_nested`: a schema is inside `json_schema`, as in chat completions. Raises
    InvalidRequestError.
    """
    wanted = fields.child(name)
    if wanted is None:
        return None
    kind = wanted.one_of("type", ("text", "json_object", "json_schema"))
    if kind is None:
        raise wanted.invalid("type", "is missing")
    constraint = None
    if kind == "json_object":
        constraint = Constraint(json_object=True)
    if kind == "json_schema":
        holder = wanted.required_child("json_schema") if is_nested else wanted
        holder.required_text("name")
        schema = holder.document("schema")
        if schema is None:
            raise holder.invalid("schema", "is missing")
        # Whether strict or not, an answer satisfies it.
        holder.boolean("strict")
        holder.text("description")
        constraint = Constraint(json_schema=compact_json(schema))
        if is_nested:
            holder.finish()
    wanted.finish()
    return constraint


def compact_json(value: Any) -> str:
    """JSON without spaces; characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _choice(fields: Fields, *, is_nested: bool) -> tuple[ToolChoice | None, str]:
    if not isinstance(fields.anything("tool_choice"), dict):
        word = fields.one_of("tool_choice", _CHOICES)
        return (None if word is None else _CHOICES[word]), ""
    named = fields.required_child("tool_choice")
    named.one_of("type", ("function",))
    holder = named.required_child("function") if is_nested else named
    name = holder.required_text("name")
    holder.finish()
    named.finish()
    return ToolChoice.TOOL_CHOICE_NAMED, name


def _tool(item: Fields, *, is_nested: bool) -> Tool:
    if item.one_of("type", ("function",)) is None:
        raise item.invalid("type", "is missing")
    holder = item.required_child("function") if is_nested else item
    name = holder.required_text("name")
    parameters = holder.document("parameters")
    description = holder.text("description") or ""
    holder.boolean("strict")
    holder.finish()
    item.finish()
    return Tool(
        name=name,
        description=description,
        parameters_json="" if parameters is None else compact_json(parameters),
    )
