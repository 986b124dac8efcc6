"""One HTTP listener in the gateway's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from services.chassis.logs import get_logger

_DRAIN_S = 10
_BACKLOG = 512


class HttpListener:
    """Serves an ASGI application on `host:port`."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app = app
        self._address = address
        self.bound_port: int | None = None
        """The port in use, once serving."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens; on leaving refuses new calls and drains the running ones. Raises OSError."""
        listening = _bind(self._address)
        self.bound_port = listening.getsockname()[1]
        server = _Server(
            uvicorn.Config(
                self._app,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_DRAIN_S,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listening]))
        get_logger().info("http_started", address=self._address)
        try:
            yield
        finally:
            server.should_exit = True
            await task
            get_logger().info("http_stopped", address=self._address)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to the gateway, which has other doors to close."""
        yield


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), int(port)))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {address}: is it in use?") from error
    return listening
