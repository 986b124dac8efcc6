"""Finds the TCP port the gateway listens on."""

from __future__ import annotations

import socket

from edgelora.local_stack.errors import StackError

HOST = "127.0.0.1"
DEFAULT_PORT = 50051


def choose_port(wanted: int | None) -> int:
    """Returns a port that is free right now.

    `wanted`: this port or an error; 0 any; None the default one, or any when it is taken.
    """
    if wanted is None:
        return DEFAULT_PORT if is_free(DEFAULT_PORT) else _any_port()
    if wanted == 0:
        return _any_port()
    if not is_free(wanted):
        raise StackError(
            f"port {wanted} is in use: choose another --port, or leave it out to take a free one"
        )
    return wanted


def is_free(port: int) -> bool:
    """Returns whether a server could listen on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
