"""One connection of an HTTP listener, bounded before anybody knows whose it is.

uvicorn's protocol on h11 does the HTTP. What is added: how many connections there may be, how
long a head may take, and that neither a reader nor a writer who stands still keeps anything.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from uuid import uuid4

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from services.gateway.http.client_certificate import CertifiedApp
from services.gateway.http.limits import HttpLimits

_PIECE_BYTES = 2**10
_MAX_PIPELINED_BYTES = 2**16
_MAX_CHUNKS = 4096
"""Of one body."""


class ConnectionCounts:
    """Open connections of one listener, by the peer's host."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._by_peer: Counter[str] = Counter()

    def enter(self, peer: str) -> bool:
        """Counts a connection, unless there is no room for it; `leave` must follow."""
        if (
            self._by_peer.total() >= self._limits.max_connections
            or self._by_peer[peer] >= self._limits.max_connections_per_peer
        ):
            return False
        self._by_peer[peer] += 1
        return True

    def leave(self, peer: str) -> None:
        """A counted connection has ended."""
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]


class _StrictConnection(h11.Connection):
    """HTTP whose bodies have one end and are cheap to read.

    A body whose end is told in two ways is refused: a proxy before us may believe the other, and
    take what we read as the next request for a part of this one (RFC 9112, section 6.3). So is one
    in very many chunks: each costs the event loop as much as kilobytes of a large one.
    """

    _num_chunks = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._num_chunks = 0
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        elif isinstance(event, h11.Data) and event.chunk_start:
            self._num_chunks += 1
            if self._num_chunks > _MAX_CHUNKS:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class BoundedConnection(H11Protocol):
    """A connection that cannot cost more than its limits."""

    def __init__(
        self, config: Config, state: ServerState, counts: ConnectionCounts, limits: HttpLimits
    ) -> None:
        super().__init__(config, state, app_state={"limits": limits})
        self.conn = _StrictConnection(h11.SERVER, limits.max_head_bytes)
        self._counts = counts
        self._limits = limits
        self._peer: str | None = None
        """Set while the connection is counted."""
        self._due: asyncio.TimerHandle | None = None
        """Runs while the peer has to send something."""
        self._end: asyncio.TimerHandle | None = None
        """Runs while the peer has to read, or to go."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection, or says that there are too many."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        if connection is not None:
            self.app = CertifiedApp(self.app, connection)
        peer = self.client[0] if self.client else ""
        if self._counts.enter(peer):
            self._peer = peer
            self._watch_peer()
        else:
            transport.write(_fixed_answer(503, b"Service Unavailable", "too many connections"))
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends whatever the connection was doing."""
        if self._peer is not None:
            self._counts.leave(self._peer)
            self._peer = None
        for timer in (self._due, self._end):
            if timer is not None:
                timer.cancel()
        # uvicorn leaves it running when the connection was reset.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes bytes: of a head only as many as it may have."""
        view = memoryview(data)
        while view and not self.transport.is_closing():
            size = _PIECE_BYTES if self.conn.their_state is h11.IDLE else len(view)
            super().data_received(bytes(view[:size]))
            view = view[size:]
            self._watch_peer()
        if self.flow.read_paused and self.conn.their_state is h11.DONE:
            # Pipelined. To pause reading would hide that the client leaves.
            if len(self.conn.trailing_data[0]) > _MAX_PIPELINED_BYTES:
                self.transport.abort()
            else:
                self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """The next request may come; what is left of this one's body is not awaited for long."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later(self._limits.stall_s)
        else:
            self._watch_peer()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write: not for long."""
        super().pause_writing()
        self._abort_later(self._limits.stall_s)

    def resume_writing(self) -> None:
        """The peer has made room."""
        super().resume_writing()
        if self._end is not None and not self.transport.is_closing():
            self._end.cancel()
            self._end = None

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came after the last answer."""
        if self.conn.our_state is h11.IDLE:
            super().timeout_keep_alive_handler()
        else:
            self.transport.close()
        self._abort_later(self._limits.stall_s)

    def shutdown(self) -> None:
        """The listener ends."""
        super().shutdown()
        if self.transport.is_closing():
            self._abort_later(self._limits.stall_s)

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, or has too large a head; the connection ends."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(
                _fixed_answer(400, b"Bad Request", "malformed HTTP, or headers over 16 KiB")
            )
        self._close()

    def _watch_peer(self) -> None:
        """Runs a clock while the peer owes the rest of a head, or of a body already answered."""
        is_new = self.cycle is None
        owes_head = self.conn.their_state is h11.IDLE and (
            is_new or bool(self.conn.trailing_data[0])
        )
        owes_body = self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete
        if not (owes_head or owes_body):
            if self._due is not None:
                self._due.cancel()
                self._due = None
        elif self._due is None:
            self._due = self.loop.call_later(self._limits.head_s, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._abort_later(self._limits.stall_s)

    def _abort_later(self, wait_s: float) -> None:
        """A peer that does not read would keep a closed connection for ever."""
        if self._end is None:
            self._end = self.loop.call_later(wait_s, self.transport.abort)


def _fixed_answer(status: int, phrase: bytes, message: str) -> bytes:
    """An answer before there is a request to answer."""
    document: dict[str, Any] = {
        "error": {"message": message, "type": "server_error", "param": None, "code": None}
    }
    if status == 400:
        document["error"]["type"] = "invalid_request_error"
    body = json.dumps(document).encode()
    return b"".join(
        [
            b"HTTP/1.1 %d %b\r\n" % (status, phrase),
            b"content-type: application/json\r\n",
            b"content-length: %d\r\n" % len(body),
            b"x-request-id: %b\r\n" % uuid4().hex.encode(),
            b"retry-after: 1\r\n" if status == 503 else b"",
            b"connection: close\r\n\r\n",
            body,
        ]
    )
