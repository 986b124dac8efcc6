"""GET /dash/stream: the dashboard's values once a second, as server-sent events."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from edgelora.errors import CancelledRequestError
from services.gateway.dashboard.operator_login import OperatorLogin
from services.gateway.dashboard.sampler import Sampler
from services.gateway.http.presence import while_connected

_MAX_STREAMS = 16
_HEARTBEAT_S = 5.0
_HEARTBEAT = b": still here\n\n"


class EventStreams:
    """Opens streams, and counts those that are open."""

    def __init__(self, sampler: Sampler, login: OperatorLogin) -> None:
        self.sampler = sampler
        self.login = login
        self.num_open = 0

    async def open(self, request: Request) -> Response:
        """One more stream, unless 16 are open."""
        if self.num_open >= _MAX_STREAMS:
            return JSONResponse(
                {"error": {"message": "too many open dashboards: close one"}},
                status_code=503,
                headers={"retry-after": "5"},
            )
        return _EventStream(self, request)


class _EventStream(Response):
    """Sends `history` first, `library` when it has changed, and `node` every second.

    A reader that stands still is cut by the listener.
    """

    media_type = "text/event-stream"

    def __init__(self, streams: EventStreams, request: Request) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.num_open += 1
        try:
            with suppress(CancelledRequestError):
                await while_connected(receive, self._send_all(send))
        finally:
            self._streams.num_open -= 1

    async def _send_all(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        sampler, library = self._streams.sampler, ""
        with sampler.watching():
            await _send_event(send, "history", sampler.history())
            # A session that has ended takes its streams along.
            while self._streams.login.is_logged_in(self._request):
                try:
                    async with asyncio.timeout(_HEARTBEAT_S):
                        sample = await sampler.next_sample()
                except TimeoutError:
                    await _send(send, _HEARTBEAT)
                    continue
                if sample is None:
                    break
                if sample.library != library:
                    library = sample.library
                    await _send_event(send, "library", library)
                await _send_event(send, "node", sample.node)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_event(send: Send, name: str, line: str) -> None:
    await _send(send, f"event: {name}\ndata: {line}\n\n".encode())


async def _send(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})
