"""Who may take a place of a worker. Pure.

A worker has as many places as its engine has seats. The interactive class counts only its own
leases against them: the engine pauses background and batch sequences for it, and a paused one
keeps its lease. Background and batch count every lease, so they take what interactive leaves free.
An overdue class (see request_queue.py) counts background and batch only, so that endless
interactive load cannot keep it out. Of either kind there are never more leases than places: a
worker holds at most twice its places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from services.scheduler.request import Priority

_ROUNDING = 1e-9
"""29 places are 58 % of 50, in floating point too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """What is left of the places. Running requests keep theirs; only grants obey it."""

    share: float = 1.0
    """Of each worker's places, above 0 to 1; one is always left."""
    max_lower_running: int | None = None
    """Most background and batch requests that run at once, together; None: as many as fit."""

    def places_of(self, max_running: int) -> int:
        """Returns how many of a worker's places may be taken."""
        return max(1, math.floor(max_running * self.share + _ROUNDING))


def num_free_places(
    places: int, num_running: Mapping[Priority, int], priority: Priority, *, is_overdue: bool
) -> int:
    """Returns how many more requests of a class may run on a worker, at least 0.

    `places` is what the worker has, `num_running` its leases of each class.
    """
    num_interactive = num_running[Priority.INTERACTIVE]
    num_lower = num_running[Priority.BACKGROUND] + num_running[Priority.BATCH]
    if priority is Priority.INTERACTIVE:
        num_counted = num_interactive
    elif is_overdue:
        num_counted = num_lower
    else:
        num_counted = num_interactive + num_lower
    return max(0, places - num_counted)
