"""What tenants reach over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from edgelora.errors import InvalidRequestError, NotFoundError
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.front_door import FrontDoor
from services.gateway.http.call import Dialect, Endpoint, Handler, HttpCall
from services.gateway.http.ollama.dialect import OllamaDialect
from services.gateway.http.ollama.routes import ollama_routes
from services.gateway.http.ollama.unserved import refuse_unknown
from services.gateway.http.openai.dialect import OpenAiDialect
from services.gateway.http.openai.routes import openai_routes
from services.gateway.http.own_routes import own_routes
from services.gateway.node_status import NodeStatus


def tenant_app(door: FrontDoor, catalogue: AdapterCatalogue, status: NodeStatus) -> ASGIApp:
    """Both dialects and our own paths on one listener."""
    openai, ollama = OpenAiDialect(), OllamaDialect()
    routes = [*openai_routes(door, catalogue), *own_routes(door, status)]
    ollamas = ollama_routes(door, catalogue)
    return Router(
        [
            *routes,
            *_other_methods(routes, door, openai),
            *ollamas,
            *_other_methods(ollamas, door, ollama),
            Route("/api/{rest:path}", Endpoint(refuse_unknown(), ollama, door)),
        ],
        redirect_slashes=False,
        default=Endpoint(_unknown_path, openai, door),
    )


async def _unknown_path(_call: HttpCall) -> Response:
    raise NotFoundError("there is no such path: see /openapi.json")


def _other_methods(routes: Iterable[Route], door: FrontDoor, dialect: Dialect) -> Iterator[Route]:
    """A route for each path that answers the methods no route before it takes."""
    allowed: dict[str, set[str]] = {}
    for route in routes:
        allowed.setdefault(route.path, set()).update(route.methods or ())
    for path, methods in allowed.items():
        handler = _wrong_method(dialect, ", ".join(sorted(methods)))
        yield Route(path, Endpoint(handler, dialect, door))


def _wrong_method(dialect: Dialect, allowed: str) -> Handler:
    async def answer(_call: HttpCall) -> Response:
        wrong = InvalidRequestError(f"the method must be one of {allowed}")
        response = dialect.error_response(wrong)
        response.status_code = 405
        response.headers["allow"] = allowed
        return response

    return answer
