"""The operator's key, and the cookie that stands for it in a browser."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from edgelora.errors import EdgeLoraError
from services.chassis.logs import get_logger
from services.chassis.sealing import boot_clock_s
from services.gateway.dashboard.browser_sessions import SESSION_S, BrowserSessions
from services.gateway.dashboard.pages import Pages
from services.gateway.failure_throttle import FailureThrottle
from services.gateway.http.body import read_body
from services.gateway.http.limits import HttpLimits

COOKIE = "edgelora_operator"
LOGIN_PATH = "/login"
_FORM = HttpLimits(max_body_bytes=4096)
_MAX_FIELDS = 4


class OperatorLogin:
    """Begins and ends the sessions of browsers."""

    def __init__(
        self,
        key: bytes,
        pages: Pages,
        *,
        boot_clock: Callable[[], float] = boot_clock_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._key_hash = hashlib.sha256(key).digest()
        self._pages = pages
        self._boot_clock = boot_clock
        self._sleep = sleep
        self._throttle = FailureThrottle()
        self._sessions = BrowserSessions()

    def is_logged_in(self, request: Request) -> bool:
        """Whether the call's cookie is that of a session."""
        return self._sessions.is_active(request.cookies.get(COOKIE, ""), self._boot_clock())

    async def show(self, request: Request) -> Response:
        """GET /login."""
        if self.is_logged_in(request):
            return RedirectResponse("/", status_code=303)
        return self._pages.login()

    async def begin(self, request: Request) -> Response:
        """POST /login: the form with the key. Wrong ones are answered later and later."""
        try:
            body = await read_body(request.receive, _FORM)
            form = parse_qs(body.decode(errors="replace"), max_num_fields=_MAX_FIELDS)
        except (EdgeLoraError, ValueError):
            return PlainTextResponse("the form holds the key, and nothing else\n", 400)
        key_hash = hashlib.sha256(form.get("key", [""])[0].strip().encode()).digest()
        if not hmac.compare_digest(key_hash, self._key_hash):
            peer = request.client.host if request.client else ""
            get_logger().warning("operator_login_refused", peer=peer)
            delay_s = self._throttle.delay_s(peer, self._boot_clock())
            if delay_s > 0:
                await self._sleep(delay_s)
            return self._pages.login(is_refused=True)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            COOKIE,
            self._sessions.begin(self._boot_clock()),
            max_age=int(SESSION_S),
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def end(self, request: Request) -> Response:
        """POST /logout."""
        self._sessions.end(request.cookies.get(COOKIE, ""))
        response = RedirectResponse(LOGIN_PATH, status_code=303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response
