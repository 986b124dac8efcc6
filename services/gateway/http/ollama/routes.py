"""The paths of the Ollama dialect."""

from __future__ import annotations

from starlette.routing import Route

from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.front_door import FrontDoor


def ollama_routes(door: FrontDoor, catalogue: AdapterCatalogue) -> list[Route]:
    """All of them."""
    return []
