"""`/v1/models`: the base model, and the caller's adapters with it as their parent."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from edgelora.v1.gateway_service_pb2 import ListAdaptersRequest
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.http.call import HttpCall

_OWNER = "edgelora"


class Models:
    """Lists what `model` may be."""

    def __init__(self, catalogue: AdapterCatalogue) -> None:
        self._catalogue = catalogue

    async def list(self, call: HttpCall) -> Response:
        """Answers GET /v1/models."""
        caller = await call.authenticate()
        base = call.door.model.name
        documents: list[dict[str, object]] = [
            {"id": base, "object": "model", "created": 0, "owned_by": _OWNER}
        ]
        token = ""
        while True:
            page = await self._catalogue.list(ListAdaptersRequest(page_token=token), caller.claim)
            for adapter in page.adapters:
                documents += [
                    {
                        "id": name,
                        "object": "model",
                        "created": adapter.registered_at.seconds,
                        "owned_by": caller.tenant.tenant_id,
                        "parent": base,
                        "root": adapter.digest,
                    }
                    for name in adapter.aliases or [adapter.digest]
                ]
            token = page.next_page_token
            if not token:
                return JSONResponse({"object": "list", "data": documents})
