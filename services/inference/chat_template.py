"""Renders conversations with the base model's own template, the only one ever rendered.

The template is code that came with the weights, so it runs in a sandbox. Messages are data: a
control token spelled in one is broken up by a marker before rendering, and put together again,
as plain text, by the tokenizer.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgelora.errors import InvalidRequestError
from services.chassis.base_model import read_object

FILE_NAME = "tokenizer_config.json"
_MARKER_DIGITS = 24
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a template's own code may raise on a conversation it was not written for."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `role` was checked, `content` is whatever the user wrote."""

    role: str
    content: str


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
        self._template = environment.from_string(source)
        self._control_tokens = control_tokens
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

    def render(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Returns the prompt up to the assistant's turn, and the marker it is to be read with.

        Raises InvalidRequestError when the template refuses the conversation.
        """
        # Nobody can write what nobody knows yet.
        marker = str(secrets.randbelow(10**_MARKER_DIGITS)).zfill(_MARKER_DIGITS)
        turns = [
            {"role": message.role, "content": self._neutralised(message.content, marker)}
            for message in messages
        ]
        try:
            text = self._template.render(
                messages=turns, add_generation_prompt=True, **self._constants
            )
        except (_RefusedError, jinja2.TemplateError, *_FAULTS):
            raise InvalidRequestError(
                "messages: the model's chat template refuses this conversation: "
                "check the order of the roles",
                field="messages",
            ) from None
        return text, marker

    def _neutralised(self, content: str, marker: str) -> str:
        for token in self._control_tokens:
            content = content.replace(token, token[0] + marker + token[1:])
        # A part at either end could become a control token together with what stands beside it.
        lengths = range(1, min(self._longest_part, len(content)) + 1)
        if any(content[-n:] in self._heads or content[:n] in self._tails for n in lengths):
            content = marker + content + marker
        return content


def _spelling(token: object) -> str | None:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _refuse(_message: str) -> NoReturn:
    raise _RefusedError
