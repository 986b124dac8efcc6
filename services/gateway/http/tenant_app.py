"""What tenants reach over HTTP."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.front_door import FrontDoor
from services.gateway.http.ollama.routes import ollama_routes
from services.gateway.http.openai.routes import openai_routes


def tenant_app(door: FrontDoor, catalogue: AdapterCatalogue) -> ASGIApp:
    """Both dialects on one listener."""
    return Starlette(
        routes=[*openai_routes(door, catalogue), *ollama_routes(door, catalogue)],
    )
