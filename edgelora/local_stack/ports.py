"""Finds the TCP ports the gateway listens on."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from edgelora.local_stack.errors import StackError

HOST = "127.0.0.1"
ANY_HOST = "0.0.0.0"  # noqa: S104 - asked for, and only with TLS
DEFAULT_PORT = 50051
DEFAULT_HTTP_PORT = 8080
DEFAULT_DASHBOARD_PORT = 8081
FIRST_METRICS_PORT = 9464
"""Of the first service; the others have the ports after it. deploy/prometheus names them."""


def choose_port(wanted: int | None, default: int = DEFAULT_PORT, option: str = "--port") -> int:
    """Returns a port that is free right now.

    `wanted`: this port or an error; 0 any; None the default one, or any when it is taken.
    `option` is what the user chose it with.
    """
    if wanted is None:
        return default if is_free(default) else _any_port()
    if wanted == 0:
        return _any_port()
    if not is_free(wanted):
        raise StackError(
            f"port {wanted} is in use: choose another {option}, or leave it out to take a free one"
        )
    return wanted


def choose_metrics_ports(services: Sequence[str]) -> dict[str, int]:
    """Returns a port that is free right now for each service: its usual one, or any."""
    chosen: dict[str, int] = {}
    for usual, service in enumerate(services, FIRST_METRICS_PORT):
        port = choose_port(None, usual)
        while port in chosen.values():
            port = _any_port()
        chosen[service] = port
    return chosen


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
