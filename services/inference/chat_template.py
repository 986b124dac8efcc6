"""Renders conversations with the base model's own template, the only one ever rendered.

The template is code that came with the weights, so it runs in a sandbox. Messages are data: a
control token spelled in one is broken up by a marker before rendering, and put together again,
as plain text, by the tokenizer. So are tools and calls.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgelora.errors import InvalidRequestError
from edgelora.v1.generation_pb2 import ChatMessage
from services.chassis.base_model import read_object
from services.chassis.tool_call_text import OPEN
from services.inference.tool_prompt import (
    OfferedTool,
    plain_turns,
    template_tools,
    template_turn,
)

FILE_NAME = "tokenizer_config.json"
_MARKER_DIGITS = 24
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a template's own code may raise on a conversation it was not written for."""


class _RefusedError(Exception):
    """The template itself refuses the conversation."""


class ChatTemplate:
    """A base model's template. Raises jinja2.TemplateSyntaxError when it can not be compiled."""

    def __init__(
        self, source: str, control_tokens: Sequence[str], constants: dict[str, str]
    ) -> None:
        """`constants` are names the template may use, such as bos_token."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            extensions=["jinja2.ext.loopcontrols"],
        )
        environment.globals["raise_exception"] = _refuse
        # Jinja's own escapes what HTML would misread.
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(source)
        names = jinja2.meta.find_undeclared_variables(environment.parse(source))
        self.knows_tools = "tools" in names and OPEN in source
        """Whether it tells the model of tools, and of calls in the form they are read in."""
        self._starts = _starts_of(control_tokens)
        self._heads = {token[:cut] for token in control_tokens for cut in range(1, len(token))}
        self._tails = {token[cut:] for token in control_tokens for cut in range(1, len(token))}
        self._longest_part = max(map(len, self._heads), default=0)
        self._constants = constants

    @classmethod
    def load(cls, directory: Path, control_tokens: Sequence[str]) -> ChatTemplate | None:
        """Reads a prepared model directory; None when the model has no template."""
        path = directory / FILE_NAME
        document = read_object(path) if path.exists() else {}
        source = document.get("chat_template")
        if isinstance(source, list):
            named = {entry["name"]: entry["template"] for entry in source}
            source = named.get("default")
        if not source:
            return None
        constants = {
            name: spelling
            for name in ("bos_token", "eos_token", "pad_token", "unk_token")
            if (spelling := _spelling(document.get(name)))
        }
        return cls(source, control_tokens, constants)

    def render(
        self, messages: Sequence[ChatMessage], tools: Sequence[OfferedTool] = ()
    ) -> tuple[str, str]:
        """Returns the prompt up to the assistant's turn, and the marker it is to be read with.

        `messages` were checked. Raises InvalidRequestError when the template refuses them.
        """
        # Nobody can write what nobody knows yet.
        marker = str(secrets.randbelow(10**_MARKER_DIGITS)).zfill(_MARKER_DIGITS)

        def safe(text: str) -> str:
            return self._neutralised(text, marker)

        names: dict[str, Any] = dict(self._constants)
        if self.knows_tools:
            names["messages"] = [template_turn(message, safe) for message in messages]
            names["tools"] = template_tools(tools, safe) or None
        else:
            names["messages"] = plain_turns(messages, tools, safe)
        try:
            text = self._template.render(add_generation_prompt=True, **names)
        except (_RefusedError, jinja2.TemplateError, *_FAULTS):
            raise InvalidRequestError(
                "messages: the model's chat template refuses this conversation: "
                "check the order of the roles",
                field="messages",
            ) from None
        return text, marker

    def _neutralised(self, content: str, marker: str) -> str:
        content = self._starts.sub(lambda start: start[0] + marker, content)
        # A part at either end could become a control token together with what stands beside it.
        lengths = range(1, min(self._longest_part, len(content)) + 1)
        if any(content[-n:] in self._heads or content[:n] in self._tails for n in lengths):
            content = marker + content + marker
        return content


def _starts_of(tokens: Sequence[str]) -> re.Pattern[str]:
    """Finds the first character of each of these tokens, also where they overlap."""
    rests: dict[str, list[str]] = {}
    for token in tokens:
        rests.setdefault(token[0], []).append(re.escape(token[1:]))
    starts = [f"{re.escape(first)}(?={'|'.join(each)})" for first, each in rests.items()]
    return re.compile("|".join(starts) or r"(?!)")


def _spelling(token: object) -> str | None:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(_message: str) -> NoReturn:
    raise _RefusedError
