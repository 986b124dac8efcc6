"""Where watchers wait for the pressure to change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from services.monitor.device_pressure import Pressure


class PressureBoard:
    """Shows the current pressure. Lives on one event loop."""

    def __init__(self, current: Pressure) -> None:
        self.current = current
        self._num_changes = 0
        self._is_closed = False
        self._woken = asyncio.Event()

    def show(self, pressure: Pressure) -> None:
        """Replaces what is shown; wakes the watchers when a level is another one."""
        is_change = pressure.levels != self.current.levels
        self.current = pressure
        if is_change:
            self._num_changes += 1
            self._wake()

    def close(self) -> None:
        """Ends every watch."""
        self._is_closed = True
        self._wake()

    async def watch(self, repeat_s: float) -> AsyncIterator[Pressure]:
        """Yields the current pressure at once, then every change, and again after `repeat_s`
        without one.

        A slow watcher skips to the newest: it never holds a backlog.
        """
        while not self._is_closed:
            num_changes = self._num_changes
            yield self.current
            if num_changes == self._num_changes and not self._is_closed:
                try:
                    async with asyncio.timeout(repeat_s):
                        await self._woken.wait()
                except TimeoutError:
                    continue

    def _wake(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()
