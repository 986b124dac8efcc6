"""Tasks that may outlive the call they work for, but not the process."""

from __future__ import annotations

import asyncio
from typing import Any

_DRAIN_S = 5.0
_CUT_S = 1.0


class LastTasks:
    """Holds tasks until they have ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds a task; nobody else needs to."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Waits for the last ones to end; what goes on for longer is cut."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=_DRAIN_S)
        for task in late:
            task.cancel()
        if late and self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_CUT_S)
