"""One HTTP call: its request id, its caller, its log line, and the error it ends with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from edgelora.errors import CancelledRequestError, EdgeLoraError, InternalError
from services.chassis.logs import code_places, get_logger
from services.gateway.authentication import Caller
from services.gateway.front_door import FrontDoor
from services.gateway.http.body import check_announced, read_body
from services.gateway.http.client_certificate import certificate_uris
from services.gateway.http.json_body import parse_object
from services.gateway.http.json_fields import Fields
from services.gateway.http.limits import HttpLimits
from services.gateway.http.presence import while_connected

REQUEST_ID_HEADER = "x-request-id"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Others are what somebody typed, and not logged."""
ResultT = TypeVar("ResultT")


class Dialect(Protocol):
    """How an API words an error."""

    def error_response(self, error: EdgeLoraError) -> Response:
        """The whole answer to a call that failed before its first byte."""
        ...


class HttpCall:
    """What a handler knows of its call."""

    def __init__(
        self, request: Request, door: FrontDoor, request_id: str, limits: HttpLimits
    ) -> None:
        self.request = request
        self.door = door
        self.request_id = request_id
        self._limits = limits

    async def authenticate(self) -> Caller:
        """Returns the caller. Raises UnauthenticatedError."""
        credentials = [
            ("authorization", value) for value in self.request.headers.getlist("authorization")
        ]
        client = self.request.client
        peer = f"ipv4:{client.host}:{client.port}" if client else "unix:"
        return await self.door.authenticate(
            credentials, peer=peer, certificate_uris=certificate_uris(self.request.scope)
        )

    async def json_fields(self) -> Fields:
        """The fields of the JSON body, read after `authenticate`: strangers send none.

        Raises InvalidRequestError, MessageTooLargeError and CancelledRequestError.
        """
        return Fields(parse_object(await read_body(self.request.receive, self._limits)))

    async def while_connected(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Runs work that ends when the client leaves; the body must have been read.

        Raises CancelledRequestError when the client left, and what `work` raises.
        """
        return await while_connected(self.request.receive, work)


Handler = Callable[[HttpCall], Awaitable[Response]]


class Endpoint:
    """An ASGI application around one handler."""

    def __init__(self, handler: Handler, dialect: Dialect, door: FrontDoor) -> None:
        self._handler = handler
        self._dialect = dialect
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call; one log line, whatever comes."""
        request_id = uuid4().hex  # never the client's: it names the request in our logs
        limits: HttpLimits = scope["state"]["limits"]
        request = Request(scope, receive)
        with _logged(request_id, scope) as outcome:
            try:
                check_announced(request.headers, limits)
                response = await self._handler(HttpCall(request, self._door, request_id, limits))
            except EdgeLoraError as error:
                structlog.contextvars.bind_contextvars(reason=error.reason, field=error.field)
                response = self._dialect.error_response(error)
            except Exception as error:  # noqa: BLE001 - the one place that answers 500
                get_logger().error(
                    "unexpected_error", error_type=type(error).__name__, frames=code_places(error)
                )
                message = f"an internal error occurred: report request id {request_id}"
                response = self._dialect.error_response(InternalError(message))
            outcome.status = response.status_code
            response.headers[REQUEST_ID_HEADER] = request_id
            await response(scope, receive, send)


class _Outcome:
    status = 0


@contextmanager
def _logged(request_id: str, scope: Scope) -> Iterator[_Outcome]:
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id)
    outcome, started = _Outcome(), time.monotonic()
    try:
        yield outcome
    except (CancelledRequestError, asyncio.CancelledError) as end:
        outcome.status = 499
        if isinstance(end, asyncio.CancelledError):
            raise
    finally:
        route = scope.get("route")
        get_logger().info(
            "http_finished",
            method=scope["method"] if scope["method"] in _METHODS else None,
            # The template: the rest of a path is what somebody typed.
            route=None if route is None else route.path,
            status=outcome.status,
            duration_ms=round((time.monotonic() - started) * 1000, 1),
        )


def endpoints(door: FrontDoor, dialect: Dialect) -> Callable[[Handler], ASGIApp]:
    """Makes endpoints of handlers that speak one dialect."""
    return lambda handler: Endpoint(handler, dialect, door)
