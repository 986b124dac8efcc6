"""The requests a worker has, by tenant and request id, so that they can be changed on their way."""

from __future__ import annotations

from edgelora.errors import InvalidRequestError, NotFoundError
from services.inference.engine.engine import Engine
from services.inference.engine.sequence import AdapterUse
from services.inference.engine.token_stream import TokenStream


class RunningRequest:
    """One request, from its ticket to its end."""

    def __init__(self, engine: Engine, adapters: tuple[AdapterUse, ...]) -> None:
        self._engine = engine
        self.adapters = adapters
        """With the strengths it starts with."""
        self._stream: TokenStream | None = None

    def start(self, stream: TokenStream) -> None:
        """Says that the engine has it."""
        self._stream = stream

    async def set_strength(self, digest: str, strength: float) -> tuple[AdapterUse, ...]:
        """Changes an adapter from the next token on; returns the strengths in force.

        `digest` may be empty where there is one adapter. Raises InvalidRequestError for one the
        request does not have, NotFoundError when it has ended.
        """
        digest = self._find(digest)
        if self._stream is None:
            self.adapters = tuple(
                AdapterUse(use.digest, strength if use.digest == digest else use.weight)
                for use in self.adapters
            )
            return self.adapters
        uses = await self._engine.set_strength(self._stream, digest, strength)
        if uses is None:
            raise _unknown()
        return uses

    def _find(self, digest: str) -> str:
        digests = [use.digest for use in self.adapters]
        if not digest and len(digests) == 1:
            return digests[0]
        if digest not in digests:
            raise InvalidRequestError(
                "adapter must be one of those the generation was started with, at a strength above "
                "0: at 0 an adapter is not loaded",
                field="adapter",
            )
        return digest


class RunningRequests:
    """All of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._requests: dict[tuple[str, str], RunningRequest] = {}

    def add(
        self, tenant_id: str, request_id: str, adapters: tuple[AdapterUse, ...]
    ) -> RunningRequest:
        """Makes a request known; `remove` must follow."""
        request = RunningRequest(self._engine, adapters)
        self._requests[tenant_id, request_id] = request
        return request

    def remove(self, tenant_id: str, request_id: str, request: RunningRequest) -> None:
        """Says that it is over. Again is harmless, and a later one of the same id stays."""
        if self._requests.get((tenant_id, request_id)) is request:
            del self._requests[tenant_id, request_id]

    def find(self, tenant_id: str, request_id: str) -> RunningRequest:
        """One of a tenant's. Raises NotFoundError, in the same words for what is another's."""
        request = self._requests.get((tenant_id, request_id))
        if request is None:
            raise _unknown()
        return request


def _unknown() -> NotFoundError:
    return NotFoundError("no such generation is running: it may have ended")
