"""Shows how a stack starts: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console
from rich.status import Status

from edgelora.local_stack.supervisor import ServiceState


class StartView:
    """Takes the supervisor's reports."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, ServiceState] = {}
        self._status: Status | None = None
        self._started_s = time.monotonic()

    def start(self) -> None:
        """Begins to show."""
        if self._console.is_terminal:
            self._status = self._console.status("Starting")
            self._status.start()

    def ready(self) -> None:
        """Says how long the start took."""
        self.end()
        took_s = time.monotonic() - self._started_s
        self._console.print(f"{len(self._states)} processes ready in {took_s:.1f} s")

    def end(self) -> None:
        """Gives the terminal back; may be called at any time."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def report(self, name: str, state: ServiceState, note: str) -> None:
        """Shows one change of one service."""
        self._states[name] = state
        if state is ServiceState.RESTARTING:  # one that is given up ends the command, which says so
            self._console.print(f"{name} {note}: {state.value}")
        elif self._status is not None:
            self._status.update(self._line())
        elif not self._console.is_terminal and state is ServiceState.READY:
            self._console.print(f"{name} ready")

    def stopping(self) -> None:
        """Says that the end was asked for; the terminal may be gone by now."""
        with suppress(OSError):
            self.end()
            self._console.print("Stopping")

    def _line(self) -> str:
        waiting = [name for name, state in self._states.items() if state is not ServiceState.READY]
        num_ready = len(self._states) - len(waiting)
        return f"Starting  {num_ready} of {len(self._states)} ready  {' '.join(waiting)}"
