"""Paths of Ollama's API that change models or need what this node has not: refused plainly."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from edgelora.errors import EdgeLoraError, NotFoundError, PermissionDeniedError
from services.gateway.http.call import Handler, HttpCall

_MODELS = "models are not changed here: `edgelora adapters` adds, names and removes adapters"


def refuse_change() -> Handler:
    """For create, copy, delete, push and blobs."""
    return _refusing(lambda: PermissionDeniedError(_MODELS))


def refuse_unknown() -> Handler:
    """For every path there is not."""
    return _refusing(lambda: NotFoundError("there is no such path: docs/http.md lists them"))


def _refusing(refusal: Callable[[], EdgeLoraError]) -> Handler:
    async def answer(call: HttpCall) -> Response:
        await call.authenticate()
        raise refusal()

    return answer
