"""Begins a trace with each HTTP call."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from edgelora.error_tree import CancelledRequestError
from services.chassis.tracing import TRACEPARENT_KEY, CallersTrace, begin_call
from services.gateway.http.observed_app import EndedHttpCall, ObservedApp

_SERVER_ERROR = 500


class TracedApp:
    """An ASGI application around another, where the process has a tracer."""

    def __init__(self, app: ASGIApp, callers: CallersTrace) -> None:
        """`callers`: what becomes of a client's own traceparent."""
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the call on inside its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        key = TRACEPARENT_KEY.encode()
        sent = [value.decode("latin-1") for name, value in scope["headers"] if name == key]
        span = begin_call(
            "HTTP", sent[0] if len(sent) == 1 else None, starts=True, callers_trace=self._callers
        )

        def end(call: EndedHttpCall) -> None:
            span.name(f"{call.method} {call.route}")
            span.set({"http.request.method": call.method, "http.route": call.route})
            if call.status is None:
                span.end(CancelledRequestError.reason)
                return
            span.set({"http.response.status_code": call.status})
            span.end(str(call.status) if call.status >= _SERVER_ERROR else None)

        await ObservedApp(self._app, end)(scope, receive, send)
