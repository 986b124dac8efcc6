"""An answer that is sent while it is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from edgelora.errors import EdgeLoraError, InternalError
from services.chassis.logs import code_places, get_logger
from services.gateway.http.presence import while_connected


class StreamedAnswer(StreamingResponse):
    """Sends pieces until they end, the client leaves, or something goes wrong."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        media_type: str,
        last_words: Callable[[EdgeLoraError], bytes],
        on_end: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`last_words` is the piece that tells of an error; `on_end` is called once, at the end."""
        # A proxy that collects the pieces would make a stream useless.
        super().__init__(
            pieces,
            media_type=media_type,
            headers={"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})},
        )
        self._last_words = last_words
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises CancelledRequestError when the client left; other errors are sent."""
        try:
            await while_connected(receive, self._send_all(send))
        finally:
            self._on_end()

    async def _send_all(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        try:
            async for piece in self.body_iterator:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except EdgeLoraError as error:
            structlog.contextvars.bind_contextvars(reason=error.reason, field=error.field)
            last = self._last_words(error)
        except Exception as error:  # noqa: BLE001 - the status is sent: this is all there is left
            get_logger().error(
                "unexpected_error", error_type=type(error).__name__, frames=code_places(error)
            )
            last = self._last_words(InternalError("an internal error occurred"))
        else:
            last = b""
        await send({"type": "http.response.body", "body": last, "more_body": False})
