"""Splits a model's output into text and calls of tools, however it is cut into pieces. Pure.

The worker's grammar lets a call have one form only (see services/chassis/tool_call_text.py), so
reading it takes one pass: a call is whole when its arguments' braces close and its end follows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from enum import Enum, auto

from edgelora.errors import InternalError
from edgelora.v1.gateway_service_pb2 import GenerationEvent
from edgelora.v1.generation_pb2 import Delta, FinishReason, TokenLogprob, ToolCall
from services.chassis.tool_call_text import (
    AFTER_ARGUMENTS,
    BEFORE_ARGUMENTS,
    BEFORE_NAME,
    CLOSE,
    OPEN,
)

_HEAD = re.compile(
    re.escape(BEFORE_NAME) + r"([A-Za-z0-9_.-]{1,64})" + re.escape(BEFORE_ARGUMENTS) + r"(?=\{)"
)
_MAX_HEAD_CHARS = len(BEFORE_NAME) + 64 + len(BEFORE_ARGUMENTS) + 1
_TAIL = AFTER_ARGUMENTS + CLOSE
_ID_BYTES = 12


class _Place(Enum):
    TEXT = auto()
    CALL = auto()
    AFTER_CALL = auto()


class ToolCallReader:
    """Reads one answer: `read` every delta, then `end`."""

    def __init__(self) -> None:
        self._place = _Place.TEXT
        self._text = ""
        """Not told yet: what may begin a call, or the call at hand behind its mark."""
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        """Those of the text that was not told."""
        self._name = ""
        self._arguments = _ObjectEnd()

    def read(self, delta: Delta) -> Iterator[GenerationEvent]:
        """Takes a piece; gives the text that is no part of a call, and the calls that ended.

        Raises InternalError for a call of another form.
        """
        self._text += delta.text
        self._token_ids += delta.token_ids
        self._logprobs += delta.logprobs
        while True:
            place, length = self._place, len(self._text)
            match place:
                case _Place.TEXT:
                    yield from self._read_text()
                case _Place.CALL:
                    yield from self._read_call()
                case _Place.AFTER_CALL:
                    self._text = self._text.lstrip()
                    if self._text.startswith(OPEN) or not OPEN.startswith(self._text):
                        self._place = _Place.TEXT
            if self._place is place and len(self._text) == length:
                break
        if self._place is not _Place.TEXT:
            self._drop_tokens()

    def end(self, reason: FinishReason) -> Iterator[GenerationEvent]:
        """Gives the text that was held back; of an answer that was cut it began a call."""
        if self._place is _Place.TEXT and reason != FinishReason.FINISH_REASON_LENGTH:
            yield from self._told(self._text)

    def reason(self, reason: FinishReason) -> FinishReason:
        """Why the answer ended: for calls, where it ended by itself behind one."""
        is_whole = reason == FinishReason.FINISH_REASON_STOP and self._place is _Place.AFTER_CALL
        return FinishReason.FINISH_REASON_TOOL_CALLS if is_whole else reason

    def _read_text(self) -> Iterator[GenerationEvent]:
        at = self._text.find(OPEN)
        if at < 0:
            certain = len(self._text) - _num_held(self._text)
            if certain or not self._text:
                yield from self._told(self._text[:certain])
            self._text = self._text[certain:]
            return
        if at > 0:
            yield from self._told(self._text[:at])
        self._text = self._text[at + len(OPEN) :]
        self._place = _Place.CALL
        self._name = ""
        self._arguments = _ObjectEnd()

    def _read_call(self) -> Iterator[GenerationEvent]:
        if not self._name:
            head = _HEAD.match(self._text)
            if head is None:
                if len(self._text) > _MAX_HEAD_CHARS:
                    raise _malformed()
                return
            self._name = head[1]
            self._text = self._text[head.end() :]
        end = self._arguments.find(self._text)
        if end is None or len(self._text) < end + len(_TAIL):
            return
        if not self._text.startswith(_TAIL, end):
            raise _malformed()
        call = ToolCall(
            id=f"call_{secrets.token_hex(_ID_BYTES)}",
            name=self._name,
            arguments_json=self._text[:end],
        )
        self._text = self._text[end + len(_TAIL) :]
        self._place = _Place.AFTER_CALL
        yield GenerationEvent(tool_call=call)

    def _told(self, text: str) -> Iterator[GenerationEvent]:
        if text or self._token_ids:
            yield GenerationEvent(
                delta=Delta(text=text, token_ids=self._token_ids, logprobs=self._logprobs)
            )
            self._drop_tokens()

    def _drop_tokens(self) -> None:
        self._token_ids = []
        self._logprobs = []


class _ObjectEnd:
    """Finds where a JSON object ends, in a text that grows."""

    def __init__(self) -> None:
        self._at = 0
        self._depth = 0
        self._is_string = False
        self._end: int | None = None

    def find(self, text: str) -> int | None:
        """The index behind the object that `text` begins with; None while it is not whole."""
        while self._end is None and (found := self._next_sign(text)) is not None:
            match found:
                case '"':
                    self._is_string = not self._is_string
                case "{" | "[":
                    self._depth += 1
                case "}" | "]":
                    self._depth -= 1
                    if self._depth == 0:
                        self._end = self._at
        return self._end

    def _next_sign(self, text: str) -> str | None:
        is_string = self._is_string
        match = _STRING_END.match(text, self._at) if is_string else _SIGN.search(text, self._at)
        if match is None:
            # A backslash at the very end waits for what it escapes.
            if not (is_string and text.endswith("\\")):
                self._at = len(text)
            return None
        self._at = match.end()
        return match[0][-1]


_SIGN = re.compile(r'["{}\[\]]')
_STRING_END = re.compile(r'(?:\\.|[^"\\])*+"', re.DOTALL)


def _num_held(text: str) -> int:
    """How many characters at the end may begin a call."""
    return next((count for count in range(len(OPEN) - 1, 0, -1) if text.endswith(OPEN[:count])), 0)


def _malformed() -> InternalError:
    return InternalError("the worker wrote a call in a form that is not known")
