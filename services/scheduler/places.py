"""How many places may be taken while the device is under pressure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """What is left of the places. Running requests keep theirs; only grants obey it."""

    share: float = 1.0
    """Of each worker's places, above 0 to 1; one is always left."""
    max_lower_running: int | None = None
    """Most background and batch requests that run at once, together; None: as many as fit."""

    def places_of(self, max_running: int) -> int:
        """Returns how many of a worker's places may be taken."""
        return max(1, math.floor(max_running * self.share))
