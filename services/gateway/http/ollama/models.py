"""What models there are: /api/tags, /api/show, /api/ps, /api/pull, /api/version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from edgelora.adapter_names import AUTO
from edgelora.v1.adapter_pb2 import Adapter
from edgelora.v1.encoder_service_pb2 import GetEncoderResponse
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.gateway_service_pb2 import GetAdapterRequest, ListAdaptersRequest
from edgelora.v1.inference_service_pb2 import GetModelResponse
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.authentication import Caller
from services.gateway.front_door import BaseModel
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import renamed
from services.gateway.http.json_fields import Fields
from services.gateway.http.model_names import is_of
from services.gateway.http.ollama.answers import OllamaAnswer
from services.gateway.http.ollama.model_documents import (
    adapter_entries,
    auto_entry,
    base_entry,
    running_entry,
    shown,
)
from services.gateway.http.ollama.model_tags import selections_named

API_VERSION = "0.12.0"
"""The Ollama release whose API this is a subset of: clients ask for a least one."""
_GREETING = "Ollama is running"
"""Many clients look for exactly these words before they send anything."""


class Models:
    """Tells of the base models and the caller's adapters."""

    def __init__(self, catalogue: AdapterCatalogue) -> None:
        self._catalogue = catalogue

    async def greet(self, _call: HttpCall) -> Response:
        """Answers GET /, which is all that needs no key."""
        return PlainTextResponse(_GREETING)

    async def version(self, call: HttpCall) -> Response:
        """Answers GET /api/version."""
        await call.authenticate()
        return JSONResponse({"version": API_VERSION})

    async def tags(self, call: HttpCall) -> Response:
        """Answers GET /api/tags."""
        caller = await call.authenticate()
        models = call.door.models
        entries = [base_entry(model) for model in models]
        entries += [auto_entry(model) for model in models if isinstance(model, GetModelResponse)]
        token = ""
        while True:
            page = await self._catalogue.list(ListAdaptersRequest(page_token=token), caller.claim)
            for adapter in page.adapters:
                entries += adapter_entries(adapter, _base_of(adapter, models))
            token = page.next_page_token
            if not token:
                return JSONResponse({"models": entries})

    async def ps(self, call: HttpCall) -> Response:
        """Answers GET /api/ps."""
        await call.authenticate()
        return JSONResponse({"models": [running_entry(model) for model in call.door.models]})

    async def show(self, call: HttpCall) -> Response:
        """Answers POST /api/show."""
        caller = await call.authenticate()
        model, adapter = await self._find(call, caller, _name(await call.json_fields()))
        return JSONResponse(shown(model, adapter))

    async def pull(self, call: HttpCall) -> Response:
        """Answers POST /api/pull: what is here needs no pulling, and nothing else comes."""
        caller = await call.authenticate()
        body = await call.json_fields()
        is_streamed = body.boolean("stream")
        model, adapter = await self._find(call, caller, _name(body))
        digest = adapter.digest if adapter is not None else model.digest
        size = adapter.size_bytes if adapter is not None else model.weights_bytes
        there = {"status": "pulling " + digest.removeprefix("sha256:")[:12], "digest": digest}
        lines: list[dict[str, Any]] = [
            {"status": "pulling manifest"},
            there | {"total": size, "completed": size},
            {"status": "success"},
        ]
        if is_streamed is False:
            return JSONResponse(lines[-1])
        text = "".join(json.dumps(line) + "\n" for line in lines)
        return Response(text, media_type=OllamaAnswer.media_type)

    async def _find(
        self, call: HttpCall, caller: Caller, name: str
    ) -> tuple[BaseModel, Adapter | None]:
        """The base model and the adapter of a name; no adapter where the router chooses."""
        models = call.door.models
        base = next((each for each in models if is_of(name, each.name)), models[0])
        selections = selections_named(name, base.name)
        is_routed = isinstance(base, GetModelResponse) and any(
            each.adapter == AUTO for each in selections
        )
        if not selections or is_routed:
            return base, None
        with renamed(lambda _: "model"):
            wanted = GetAdapterRequest(adapter=selections[0].adapter)
            adapter = (await self._catalogue.get(wanted, caller.claim)).adapter
        return _base_of(adapter, models), adapter


def _base_of(adapter: Adapter, models: Sequence[BaseModel]) -> BaseModel:
    """The base model an adapter is for; that it is not served now shows when it is asked for."""
    kind = GetEncoderResponse if adapter.task == Task.TASK_ENCODE else GetModelResponse
    return next((model for model in models if isinstance(model, kind)), models[0])


def _name(body: Fields) -> str:
    """`model`, which was `name` once."""
    return body.required_text("name" if body.has("name") else "model")
