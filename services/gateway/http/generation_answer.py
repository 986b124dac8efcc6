"""Answers a call with a generation, whole or piece by piece; it ends when the client leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from starlette.responses import Response

from edgelora.errors import EdgeLoraError
from edgelora.v1.gateway_service_pb2 import Accepted
from services.gateway.generation import GenerationStream
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import Rename
from services.gateway.http.generation_events import (
    OpenedGeneration,
    WholeGeneration,
    opened,
    whole,
)
from services.gateway.http.streamed_answer import StreamedAnswer


class AnswerFormat(Protocol):
    """How a path of a dialect words a generation."""

    media_type: str
    """Of the pieces."""

    def response(self, generation: WholeGeneration) -> Response:
        """The answer in one."""
        ...

    def pieces(self, opening: OpenedGeneration) -> AsyncIterator[bytes]:
        """The answer piece by piece; nothing of it may look finished before `done` has come."""
        ...

    def last_words(self, error: EdgeLoraError) -> bytes:
        """The piece that says that the answer is cut, and why."""
        ...


async def answer(
    call: HttpCall,
    stream: GenerationStream,
    form: AnswerFormat,
    *,
    rename: Rename,
    is_streamed: bool,
    headers: Callable[[Accepted], Mapping[str, str]],
) -> Response:
    """Returns the response. Raises what the generation raises before its first token.

    `rename` gives fields of errors the names the client wrote; `headers` tells of what is served.
    """

    def end() -> None:
        stream.cancel()
        stream.bind_log_context()

    if not is_streamed:
        try:
            found = await call.while_connected(_read(stream, rename))
        finally:
            end()
        response = form.response(found)
        response.headers.update(headers(found.accepted))
        return response
    try:
        opening = await call.while_connected(opened(stream, rename))
    except BaseException:
        end()
        raise
    return StreamedAnswer(
        form.pieces(opening),
        media_type=form.media_type,
        last_words=form.last_words,
        on_end=end,
        headers=headers(opening.accepted),
    )


async def _read(stream: GenerationStream, rename: Rename) -> WholeGeneration:
    return await whole(await opened(stream, rename))
