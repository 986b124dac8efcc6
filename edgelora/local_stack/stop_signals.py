"""Ctrl-C, SIGTERM and SIGHUP end the launcher in order, whenever they come."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Takes the three signals while the block lasts.

    At first a signal raises KeyboardInterrupt, for work outside an event loop; a second one does
    not disturb the tidying up. `hold` and `cancel` change what happens. The handlers stay in place
    throughout, so that there is no moment at which a signal would simply end the process.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """The first signal that came."""
        self._react: Callable[[], None] = self._interrupt
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """From now on signals are noted and nothing else."""
        self._react = _do_nothing

    def cancel(
        self, task: asyncio.Task[int], *, notice: Callable[[], None], at_once: Callable[[], None]
    ) -> None:
        """Inside the running loop: the first signal cancels a task, the next calls `at_once`.

        A signal that was held counts as the first. `notice` is called after the cancellation.
        Call `hold` before the loop ends.
        """
        loop = asyncio.get_running_loop()
        is_cancelled = False

        def act() -> None:
            nonlocal is_cancelled
            if is_cancelled:
                at_once()
                return
            is_cancelled = True
            task.cancel()
            notice()

        def react() -> None:
            loop.call_soon_threadsafe(act)

        self._react = react
        if self.received is not None:
            act()

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number)
        self._react()

    def _interrupt(self) -> None:
        self.hold()
        raise KeyboardInterrupt


def _do_nothing() -> None:
    """What a held signal does."""
