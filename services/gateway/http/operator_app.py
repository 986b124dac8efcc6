"""What the operator reaches over HTTP: the dashboard, and the tenants' API for its playground."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from services.gateway.dashboard.event_stream import EventStreams
from services.gateway.dashboard.guard import Guard
from services.gateway.dashboard.operator_login import LOGIN_PATH, OperatorLogin
from services.gateway.dashboard.pages import STATIC_PREFIX, Pages
from services.gateway.dashboard.sampler import Sampler

_TENANT_PATHS = "/v1/"


def operator_app(
    sampler: Sampler, tenants: ASGIApp, *, key: bytes, hosts: Collection[str]
) -> ASGIApp:
    """The dashboard behind its login.

    `tenants`: the tenants' own application. Its OpenAI paths are here too, so that the
    playground's calls stay on one origin; they need a tenant's key as everywhere, and the login.
    """
    pages = Pages()
    login = OperatorLogin(key, pages)
    streams = EventStreams(sampler, login)

    async def dashboard(request: Request) -> Response:
        return pages.page("dashboard.html")

    async def playground(request: Request) -> Response:
        return pages.page("playground.html")

    async def session(request: Request) -> Response:
        return Response(status_code=204)  # whoever has none does not get here

    own = Router(
        [
            Route("/", dashboard, methods=["GET"]),
            Route("/playground", playground, methods=["GET"]),
            Route(LOGIN_PATH, login.show, methods=["GET"]),
            Route(LOGIN_PATH, login.begin, methods=["POST"]),
            Route("/logout", login.end, methods=["POST"]),
            Route("/dash/session", session, methods=["GET"]),
            Route("/dash/stream", streams.open, methods=["GET"]),
            Route(f"{STATIC_PREFIX}{{name}}", pages.static, methods=["GET"]),
        ],
        redirect_slashes=False,
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = tenants if scope["path"].startswith(_TENANT_PATHS) else own
        await chosen(scope, receive, send)

    return Guard(app, login, hosts=hosts)
