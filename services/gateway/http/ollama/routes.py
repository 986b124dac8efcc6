"""The paths of the Ollama dialect."""

from __future__ import annotations

from starlette.routing import Route

from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.front_door import FrontDoor
from services.gateway.http.call import endpoints
from services.gateway.http.ollama.dialect import OllamaDialect
from services.gateway.http.ollama.embeddings import embed, embed_one
from services.gateway.http.ollama.generations import Generations
from services.gateway.http.ollama.models import Models
from services.gateway.http.ollama.unserved import refuse_change


def ollama_routes(door: FrontDoor, catalogue: AdapterCatalogue) -> list[Route]:
    """All of them."""
    endpoint = endpoints(door, OllamaDialect())
    models, generations = Models(catalogue), Generations(catalogue)
    return [
        Route("/", endpoint(models.greet), methods=["GET"]),
        Route("/api/version", endpoint(models.version), methods=["GET"]),
        Route("/api/tags", endpoint(models.tags), methods=["GET"]),
        Route("/api/ps", endpoint(models.ps), methods=["GET"]),
        Route("/api/show", endpoint(models.show), methods=["POST"]),
        Route("/api/pull", endpoint(models.pull), methods=["POST"]),
        Route("/api/chat", endpoint(generations.chat), methods=["POST"]),
        Route("/api/generate", endpoint(generations.generate), methods=["POST"]),
        *(
            Route(f"/api/{name}", endpoint(refuse_change()), methods=[method])
            for name, method in (
                ("create", "POST"),
                ("copy", "POST"),
                ("delete", "DELETE"),
                ("push", "POST"),
                ("blobs/{digest}", "POST"),
            )
        ),
        Route("/api/embed", endpoint(embed), methods=["POST"]),
        Route("/api/embeddings", endpoint(embed_one), methods=["POST"]),
    ]
