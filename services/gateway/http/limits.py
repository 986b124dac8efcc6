"""What a listener takes from somebody it does not know yet."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_BODY_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one HTTP listener."""

    max_head_bytes: int = 2**14
    """Of a request line and its headers."""
    max_body_bytes: int = _MAX_BODY_BYTES
    max_connections: int = 512
    max_connections_per_peer: int = 128
    head_s: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its headers; also
    how long a TLS handshake may take."""
    body_s: float = 30.0
    """From the end of the headers to the end of the body."""
    idle_s: float = 30.0
    """How long a connection may stay open between two requests."""
    stall_s: float = 30.0
    """A client that reads too little to make room for so long loses its connection."""
