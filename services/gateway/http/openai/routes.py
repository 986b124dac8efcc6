"""The paths of the OpenAI dialect."""

from __future__ import annotations

from starlette.routing import Route

from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.front_door import FrontDoor
from services.gateway.http.call import endpoints
from services.gateway.http.openai.chat import complete_chat
from services.gateway.http.openai.completions import complete_text
from services.gateway.http.openai.dialect import OpenAiDialect
from services.gateway.http.openai.embeddings import embed
from services.gateway.http.openai.models import Models
from services.gateway.http.openai.responses import respond


def openai_routes(door: FrontDoor, catalogue: AdapterCatalogue) -> list[Route]:
    """All of them."""
    endpoint = endpoints(door, OpenAiDialect())
    models = Models(catalogue)
    return [
        Route("/v1/models", endpoint(models.list), methods=["GET"]),
        Route("/v1/models/{model:path}", endpoint(models.get), methods=["GET"]),
        Route("/v1/chat/completions", endpoint(complete_chat), methods=["POST"]),
        Route("/v1/completions", endpoint(complete_text), methods=["POST"]),
        Route("/v1/responses", endpoint(respond), methods=["POST"]),
        Route("/v1/embeddings", endpoint(embed), methods=["POST"]),
    ]
