"""Says what a device under pressure serves otherwise than asked."""

from __future__ import annotations

from collections.abc import Iterable

from edgelora.cli.output import printable, progress_console
from edgelora.degradation import Degradation


class DegradationNotes:
    """Prints each step of one answer once, on standard error, in plain lines."""

    def __init__(self) -> None:
        self._noted: set[tuple[str, str, int | None]] = set()

    def note(self, degradations: Iterable[Degradation]) -> None:
        """Prints the steps that are new."""
        for degradation in degradations:
            step = (degradation.step, degradation.adapter_digest, degradation.max_output_tokens)
            if step not in self._noted:
                self._noted.add(step)
                progress_console().print(f"({printable(degradation.explanation)})", style="dim")
