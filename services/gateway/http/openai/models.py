"""`/v1/models`: the base models, and the caller's adapters with theirs as their parent."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from edgelora.adapter_names import AUTO
from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from edgelora.v1.adapter_pb2 import Adapter
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.gateway_service_pb2 import GetAdapterRequest, ListAdaptersRequest
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.authentication import Caller
from services.gateway.front_door import FrontDoor
from services.gateway.http.call import HttpCall
from services.gateway.http.model_names import is_of, selections_of

_OWNER = "edgelora"


class Models:
    """Lists what `model` may be."""

    def __init__(self, catalogue: AdapterCatalogue) -> None:
        self._catalogue = catalogue

    async def list(self, call: HttpCall) -> Response:
        """Answers GET /v1/models."""
        caller = await call.authenticate()
        door = call.door
        documents = [_base_document(model.name) for model in door.models]
        if door.decoder_name:
            documents.append(_auto_document(door.decoder_name))
        token = ""
        while True:
            page = await self._catalogue.list(ListAdaptersRequest(page_token=token), caller.claim)
            for adapter in page.adapters:
                documents += [
                    _adapter_document(name, adapter, door, caller)
                    for name in adapter.aliases or [adapter.digest]
                ]
            token = page.next_page_token
            if not token:
                return JSONResponse({"object": "list", "data": documents})

    async def get(self, call: HttpCall) -> Response:
        """Answers GET /v1/models/{model}. Unknown and foreign names are alike."""
        caller = await call.authenticate()
        door = call.door
        name: str = call.request.path_params["model"]
        bases = [model.name for model in door.models]
        base = next((each for each in bases if is_of(name, each)), bases[0])
        try:
            selections = selections_of(name, base)
            if not selections:
                return JSONResponse(_base_document(base))
            adapter = selections[0].adapter
            if adapter == AUTO and door.decoder_name:
                return JSONResponse(_auto_document(door.decoder_name))
            found = await self._catalogue.get(GetAdapterRequest(adapter=adapter), caller.claim)
        except (AdapterNotFoundError, InvalidRequestError):
            raise AdapterNotFoundError("you have no such model", field="model") from None
        return JSONResponse(_adapter_document(name, found.adapter, door, caller))


def _base_document(base: str) -> dict[str, object]:
    return {"id": base, "object": "model", "created": 0, "owned_by": _OWNER}


def _auto_document(base: str) -> dict[str, object]:
    """What leaves the choice to the router."""
    return {**_base_document(base), "id": AUTO, "parent": base}


def _adapter_document(
    name: str, adapter: Adapter, door: FrontDoor, caller: Caller
) -> dict[str, object]:
    is_encoding = adapter.task == Task.TASK_ENCODE
    return {
        "id": name,
        "object": "model",
        "created": adapter.registered_at.seconds,
        "owned_by": caller.tenant.tenant_id,
        "parent": door.encoder_name if is_encoding else door.decoder_name,
        "root": adapter.digest,
    }
