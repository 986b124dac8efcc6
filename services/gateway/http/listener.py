"""One HTTP listener in the gateway's own event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from services.chassis.logs import get_logger
from services.chassis.tls import ServerTls
from services.gateway.http.acceptor import Acceptor
from services.gateway.http.connection import BoundedConnection, ConnectionCounts
from services.gateway.http.limits import HttpLimits

_DRAIN_S = 2.0
"""What is left by then is no answer, but a page that watches."""
_BACKLOG = 512


class HttpListener:
    """Serves an ASGI application on `host:port`."""

    def __init__(
        self,
        app: ASGIApp,
        address: str,
        limits: HttpLimits | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self._app = app
        self._address = address
        self._limits = limits or HttpLimits()
        self._tls = tls
        self._state = ServerState()
        self._acceptor: Acceptor | None = None
        self.bound_port: int | None = None
        """The port in use, once serving."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens; on leaving refuses new calls and cuts what runs for longer. Raises OSError."""
        # uvicorn writes what goes wrong in its own words, and tracebacks; we log each call.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        listening = _bind(self._address)
        self.bound_port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=self._limits.max_head_bytes,
            timeout_keep_alive=self._limits.idle_s,  # type: ignore[arg-type]
        )
        config.load()
        state, counts = self._state, ConnectionCounts(self._limits)
        self._acceptor = Acceptor(
            listening,
            lambda: BoundedConnection(config, state, counts, self._limits),
            self._limits,
            self._tls.http_context() if self._tls else None,
        )
        get_logger().info("http_started", address=self._address)
        try:
            yield
        finally:
            self.refuse_new()
            await _drain(state)
            get_logger().info("http_stopped", address=self._address)

    def refuse_new(self) -> None:
        """Takes no connection and no further request; those that run go on."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._state.connections):
            connection.shutdown()


async def _drain(state: ServerState) -> None:
    tasks = set(state.tasks)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=_DRAIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for connection in list(state.connections):
        connection.transport.abort()


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once only over what names its protocol: TCP_NODELAY.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), int(port)))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {address}: is it in use?") from error
    return listening
