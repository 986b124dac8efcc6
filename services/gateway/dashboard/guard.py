"""What stands before every path of the operator's listener.

A page elsewhere must not reach it through the operator's browser: not under a name of its own that
it points here (DNS rebinding), not by a form or script of its own, not in a frame.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.dashboard.operator_login import LOGIN_PATH, OperatorLogin
from services.gateway.dashboard.pages import LOGIN_NEEDS

_OPEN_PATHS = LOGIN_NEEDS | {LOGIN_PATH}
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: with it browsers send forms with the origin `null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """An ASGI application around the dashboard's own."""

    def __init__(self, app: ASGIApp, login: OperatorLogin, *, hosts: Collection[str]) -> None:
        """`hosts`: names of this machine that a browser may use, beside addresses and localhost."""
        self._app = app
        self._login = login
        self._hosts = {host.lower() for host in hosts} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call, or hands it on."""
        request = Request(scope, receive)
        refusal = self._refusal(request)
        await (refusal or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            return PlainTextResponse(
                "this name is not one of the dashboard's: use its address, or name it in "
                "EDGELORA_GATEWAY_OPERATOR_HOSTS\n",
                status_code=421,
            )
        if request.method not in _SAFE_METHODS:
            # Without the scheme: something before us may have ended TLS.
            origins = [urlsplit(origin).netloc for origin in request.headers.getlist("origin")]
            if origins != [host]:
                return PlainTextResponse("only the dashboard's own pages may do this\n", 403)
        # The same path as routes are chosen by: that of `request.url` is put together and parsed.
        if request.scope["path"] in _OPEN_PATHS or self._login.is_logged_in(request):
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN_PATH, status_code=303)
        return JSONResponse({"error": {"message": "log in first"}}, status_code=401)

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers
