"""Paths that neither API has: classification, running generations, kept conversations, usage,
health, and the document of all paths."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edgelora.errors import NotFoundError, ServiceUnavailableError
from edgelora.v1.gateway_service_pb2 import TenantUsage
from services.gateway.front_door import FrontDoor
from services.gateway.http.call import HttpCall, endpoints
from services.gateway.http.classifications import classify
from services.gateway.http.openai.dialect import OpenAiDialect
from services.gateway.http.openapi.document import api_document
from services.gateway.node_status import NodeStatus

_DOCUMENT = api_document()


def own_routes(door: FrontDoor, status: NodeStatus) -> list[Route]:
    """All of them; errors have OpenAI's shape."""
    endpoint = endpoints(door, OpenAiDialect())
    own = _OwnPaths(status)
    return [
        Route("/v1/classify", endpoint(classify), methods=["POST"]),
        Route("/v1/generations/{id}/strength", endpoint(set_strength), methods=["POST"]),
        Route("/v1/sessions", endpoint(forget_sessions), methods=["DELETE"]),
        Route("/v1/sessions/{name:path}", endpoint(forget_session), methods=["DELETE"]),
        Route("/v1/usage", endpoint(own.usage), methods=["GET"]),
        Route("/healthz", endpoint(tell_health), methods=["GET"]),
        Route("/openapi.json", endpoint(show_document), methods=["GET"]),
    ]


async def set_strength(call: HttpCall) -> Response:
    """Changes the strength of an adapter of a running generation, from its next token on."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    strength = fields.number("strength")
    if strength is None:
        raise fields.invalid("strength", "is missing")
    adapter = fields.text("adapter") or ""
    fields.finish()
    request_id: str = call.request.path_params["id"]
    adapters = await call.door.set_strength(caller, request_id, adapter, strength)
    return JSONResponse(
        {
            "id": request_id,
            "adapters": [
                {"digest": adapter.digest, "weight": adapter.strength} for adapter in adapters
            ],
        }
    )


async def forget_sessions(call: HttpCall) -> Response:
    """Drops what is kept of all conversations of the caller."""
    caller = await call.authenticate()
    return JSONResponse({"forgotten": await call.door.forget_session(caller, "")})


async def forget_session(call: HttpCall) -> Response:
    """Drops what is kept of one; a name that is not known is forgotten already."""
    caller = await call.authenticate()
    name: str = call.request.path_params["name"]
    if not name:
        # To the front door that is all of them, which nobody means who cut a path short.
        raise NotFoundError("there is no such path: /v1/sessions is that of all conversations")
    return JSONResponse({"forgotten": await call.door.forget_session(caller, name)})


async def tell_health(call: HttpCall) -> Response:
    """Whether some request could start: 503 when not. For anybody, so it says no more."""
    if not call.door.is_ready:
        raise ServiceUnavailableError("the node is not ready: try again", retry_after_s=1.0)
    return JSONResponse({"status": "ok"})


async def show_document(_call: HttpCall) -> Response:
    """What paths there are, what they take and answer. For anybody."""
    return JSONResponse(_DOCUMENT)


class _OwnPaths:
    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    async def usage(self, call: HttpCall) -> Response:
        """What the caller used, and what it may."""
        caller = await call.authenticate()
        return JSONResponse(_usage_document(self._status.usage(caller.tenant)))


def _usage_document(usage: TenantUsage) -> dict[str, object]:
    return {
        "tenant": usage.tenant_id,
        "requests": usage.num_requests,
        "prompt_tokens": usage.num_prompt_tokens,
        "completion_tokens": usage.num_output_tokens,
        "engine_s": usage.engine_time.ToMicroseconds() / 1e6,
        "energy_joules": usage.energy_joules if usage.HasField("energy_joules") else None,
        "running": usage.num_running,
        "quotas": {
            "concurrent_requests": usage.max_concurrent_requests,
            "requests_per_minute": usage.max_requests_per_minute,
            "tokens_per_minute": usage.max_tokens_per_minute,
            "adapters": usage.max_adapters,
            "adapter_bytes": usage.max_adapter_bytes,
        },
    }
