"""Ctrl-C, SIGTERM and SIGHUP end the launcher in order, whenever they come."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Makes all three signals raise KeyboardInterrupt, for work outside an event loop."""

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    previous = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class StopSignals:
    """Inside an event loop: the first signal cancels a task, the next one calls `at_once`."""

    def __init__(self, task: asyncio.Task[int], at_once: Callable[[], None]) -> None:
        self._task = task
        self._at_once = at_once
        self.received: signal.Signals | None = None
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._receive, number)

    def _receive(self, number: signal.Signals) -> None:
        if self.received is not None:
            self._at_once()
            return
        self.received = number
        self._task.cancel()
