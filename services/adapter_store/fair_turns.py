"""A number of places, which tenants that wait get in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    """Who asks for much waits for its own; another tenant waits for one of each before it."""

    def __init__(self, num_places: int) -> None:
        self._num_free = num_places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By tenant; whose turn is next comes first."""

    @asynccontextmanager
    async def take(self, tenant_id: str) -> AsyncIterator[None]:
        """Waits for a place and holds it."""
        if self._num_free:
            self._num_free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(tenant_id, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._give_back()  # it had come just now
                raise
        try:
            yield
        finally:
            self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            tenant_id = next(iter(self._waiting))
            turns = self._waiting.pop(tenant_id)
            turn = turns.popleft()
            if turns:
                self._waiting[tenant_id] = turns
            # Whoever left while waiting has cancelled its turn.
            if not turn.done():
                turn.set_result(None)
                return
        self._num_free += 1
