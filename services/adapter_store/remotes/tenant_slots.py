"""Downloads of one tenant wait for each other, never for those of another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from edgelora.errors import QueueFullError

_RETRY_AFTER_S = 5.0


@dataclass(slots=True)
class _Line:
    slots: asyncio.Semaphore
    num_inside: int = field(default=0)
    """Running and waiting."""


class TenantSlots:
    """A number of slots for each tenant."""

    def __init__(self, *, num_slots: int, max_waiting: int) -> None:
        self._num_slots = num_slots
        self._max_inside = num_slots + max_waiting
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def take(self, tenant_id: str) -> AsyncIterator[None]:
        """Waits for one of the tenant's slots and holds it.

        Raises QueueFullError when too many of the tenant's downloads wait.
        """
        line = self._lines.setdefault(tenant_id, _Line(asyncio.Semaphore(self._num_slots)))
        if line.num_inside >= self._max_inside:
            raise QueueFullError(
                f"{line.num_inside} of your downloads are running or waiting: try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        line.num_inside += 1
        try:
            async with line.slots:
                yield
        finally:
            line.num_inside -= 1
            if line.num_inside == 0:
                del self._lines[tenant_id]
