"""Where watchers wait for the pressure to change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from services.monitor.pressure import Pressure


class PressureBoard:
    """Shows the current pressure. Lives on one event loop."""

    def __init__(self) -> None:
        self.current = Pressure()
        self._is_closed = False
        self._changed = asyncio.Event()

    def show(self, pressure: Pressure) -> bool:
        """Replaces what is shown and wakes the watchers; False when it is the same."""
        if pressure == self.current:
            return False
        self.current = pressure
        self._wake()
        return True

    def close(self) -> None:
        """Ends every watch."""
        self._is_closed = True
        self._wake()

    async def watch(self) -> AsyncIterator[Pressure]:
        """Yields the current pressure at once, then every change.

        A slow watcher skips to the newest: it never holds a backlog.
        """
        shown: Pressure | None = None
        while not self._is_closed:
            if self.current != shown:
                shown = self.current
                yield shown
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
