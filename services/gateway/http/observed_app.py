"""Tells how every HTTP call ended, whatever application answered it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedHttpCall:
    """One call. Nothing in it is the client's own word."""

    method: str
    """One of the usual ones, else `other`."""
    route: str
    """The template of the route, such as `/v1/models/{model}`; `none` where none fits."""
    status: int | None
    """None where the call ended before it was answered."""
    duration_s: float
    """Until the last byte was given to the connection."""


class ObservedApp:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, observe: Callable[[EndedHttpCall], None]) -> None:
        """`observe` is called on the event loop, once for each call; it must not raise."""
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the call on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s, status = time.monotonic(), None

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            method = scope["method"]
            self._observe(
                EndedHttpCall(
                    method=method if method in _METHODS else "other",
                    # Starlette leaves here which of its routes it took.
                    route=getattr(scope.get("route"), "path", "none"),
                    status=status,
                    duration_s=time.monotonic() - started_s,
                )
            )
