"""Takes the connections of a listener, bounded from their first moment on.

A TLS connection is shown to its protocol after the handshake only. Until then each one of somebody
who connects and says nothing would cost a file descriptor; so handshakes under way have the same
bounds as connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from services.gateway.http.connection import ConnectionCounts
from services.gateway.http.limits import HttpLimits

_PAUSE_S = 0.1
"""Where the system has no file descriptor left."""


class Acceptor:
    """Accepts on a listening socket until closed, and makes a protocol of each connection."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        limits: HttpLimits,
        context: ssl.SSLContext | None,
    ) -> None:
        """Starts; `context` is that of TLS, None for plain connections."""
        listening.setblocking(False)
        self._listening = listening
        self._make = make
        self._limits = limits
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._opening = ConnectionCounts(limits)
        self._tasks = {asyncio.create_task(self._accept())}

    def close(self) -> None:
        """Takes no more; ends handshakes that are under way. Again it changes nothing."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self) -> None:
        while True:
            try:
                connected, address = await self._loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(_PAUSE_S)
                continue
            host = address[0]
            if self._opening.enter(host):
                task = asyncio.create_task(self._open(connected, host))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                connected.close()
            # One that is there is accepted without a wait: others have their turn, too.
            await asyncio.sleep(0)

    async def _open(self, connected: socket.socket, host: str) -> None:
        wait_s = self._limits.head_s if self._context is not None else None
        try:
            # OSError: the client left, spoke no TLS, or took too long.
            with suppress(OSError):
                await self._loop.connect_accepted_socket(
                    self._make, connected, ssl=self._context, ssl_handshake_timeout=wait_s
                )
        finally:
            self._opening.leave(host)
