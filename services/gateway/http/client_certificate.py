"""What a client's certificate says, for the calls on its connection."""

from __future__ import annotations

import ssl

from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.tls import socket_uris

_URIS = "edgelora.certificate_uris"
"""Key of an ASGI scope: only the connection sets it, nothing the client sends does."""


class CertifiedApp:
    """An application on one TLS connection."""

    def __init__(self, app: ASGIApp, connection: ssl.SSLObject) -> None:
        self._app = app
        self._connection = connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call, which may be long after the handshake."""
        scope[_URIS] = socket_uris(self._connection)
        await self._app(scope, receive, send)


def certificate_uris(scope: Scope) -> tuple[str, ...]:
    """URI names of the certificate a call's client proved to have; none without one."""
    uris: tuple[str, ...] = scope.get(_URIS, ())
    return uris
