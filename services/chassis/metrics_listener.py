"""A small HTTP server for scrapes: GET /metrics and nothing else, on threads of its own.

It shares nothing with the event loop, so a scrape that is slow costs no request anything. A client
gets a bounded time for its request and a bounded number of them is served at once.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable

from services.chassis.logs import get_logger

_MAX_CONNECTIONS = 4
_MAX_REQUEST_BYTES = 8192
_CALL_S = 5.0
_POLL_S = 0.1
_PATH = "/metrics"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsListener(socketserver.ThreadingTCPServer):
    """Listens from the start until `close`."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, text: Callable[[], bytes]) -> None:
        """`text` makes what a scrape reads, on its thread. Raises OSError."""
        host, _, port = address.rpartition(":")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.text = text
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        try:
            super().__init__((host.strip("[]"), int(port)), _Scrape)
        except OSError as error:
            raise OSError(f"cannot listen on {address}: is it in use?") from error
        self.bound_port: int = self.server_address[1]
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_S,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stops to listen; scrapes that run end by themselves."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def process_request(self, request: object, client_address: object) -> None:
        """Turns away what is more than may be served at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serves one connection on its own thread."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away, or sent no request, is nobody's error."""
        error = sys.exception()
        if not isinstance(error, OSError):
            get_logger().error("scrape_failed", error_type=type(error).__name__)


class _Scrape(socketserver.BaseRequestHandler):
    """One connection, one answer."""

    server: MetricsListener
    request: socket.socket

    def handle(self) -> None:
        line = _request_line(self.request)
        method, path = line[0], line[1].partition("?")[0]
        if path != _PATH:
            status, kind, body = "404 Not Found", "text/plain", b"only /metrics is here\n"
        elif method not in ("GET", "HEAD"):
            status, kind, body = "405 Method Not Allowed", "text/plain", b"only GET\n"
        else:
            status, kind, body = "200 OK", _TEXT, self.server.text()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self.request.settimeout(_CALL_S)
        self.request.sendall(head.encode("ascii") + (b"" if method == "HEAD" else body))


def _request_line(client: socket.socket) -> tuple[str, str]:
    """Reads a whole head and returns its method and target; raises OSError without one in time."""
    end_s = time.monotonic() + _CALL_S
    head = b""
    while b"\r\n\r\n" not in head:
        client.settimeout(max(0.001, end_s - time.monotonic()))
        part = client.recv(_MAX_REQUEST_BYTES)
        head += part
        if not part or len(head) > _MAX_REQUEST_BYTES:
            raise OSError("no request")
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3:
        raise OSError("no request")
    return words[0], words[1]
