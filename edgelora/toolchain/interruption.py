"""Ctrl-C and SIGTERM that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interruption:
    """While it is entered, the first signal is only noted; the second ends the process's work.

    Outside the main thread, which alone may set signal handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.is_wanted = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted:
            raise KeyboardInterrupt
        self.is_wanted = True
