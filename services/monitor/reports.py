"""What sources outside this device have reported, a bounded number of them."""

from __future__ import annotations

from edgelora.errors import ResourcePressureError
from services.monitor.sample import ReportedReadings

MAX_SOURCES = 16


class Reports:
    """The newest report of each source, good for `hold_s`."""

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._newest: dict[str, tuple[ReportedReadings, float]] = {}

    def take(self, source: str, readings: ReportedReadings, now_s: float) -> None:
        """Replaces the source's last report.

        Raises ResourcePressureError for one source too many: a silent one is kept, because it is
        unknown and not gone.
        """
        if source not in self._newest and len(self._newest) >= MAX_SOURCES:
            raise ResourcePressureError(
                f"{MAX_SOURCES} sources report already: withdraw one that went away"
            )
        self._newest[source] = (readings, now_s)

    def withdraw(self, source: str) -> None:
        """Forgets a source, known or not."""
        self._newest.pop(source, None)

    def at(self, now_s: float) -> dict[str, ReportedReadings | None]:
        """Returns what each source says now; None for one whose report is older than `hold_s`."""
        return {
            source: readings if now_s <= at_s + self._hold_s else None
            for source, (readings, at_s) in self._newest.items()
        }
