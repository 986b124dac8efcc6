"""POST /v1/embeddings: this node serves none, and says so in words that clients show."""

from __future__ import annotations

from typing import NoReturn

from edgelora.errors import NotFoundError
from services.gateway.http.call import HttpCall


async def refuse_embeddings(call: HttpCall) -> NoReturn:
    """Raises NotFoundError."""
    await call.authenticate()
    raise NotFoundError("this node serves no embeddings: its model generates text")
