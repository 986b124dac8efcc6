"""Which worker runs a request: the one that holds its adapters, unless that one is overloaded.

Bounded loads after Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads"
(arXiv 1608.01350): affinity may raise a worker's load to at most `load_factor` times the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """A ready worker, how full it is, and whether the request in question may go there."""

    name: str
    num_running: int
    """Leases of all classes, paused ones included."""
    max_running: int
    num_free: int
    """Places free for the class of the request."""


def choose_worker(
    workers: Sequence[WorkerLoad], num_resident: Mapping[str, int], *, load_factor: float
) -> str | None:
    """Returns the worker for a request, or None when no worker has a place.

    Among the workers with a place and within the load bound: most of the asked adapters first,
    then least loaded, then by name. `load_factor` is at least 1; at 1 affinity only breaks ties.
    """
    with_place = [worker for worker in workers if worker.num_free]
    if not with_place:
        return None
    total_running = sum(worker.num_running for worker in workers) + 1
    bound = math.ceil(load_factor * total_running / len(workers))
    # A full worker may be the only one under the bound: then any place will do.
    candidates = [worker for worker in with_place if worker.num_running < bound] or with_place
    best = min(
        candidates,
        key=lambda worker: (
            -num_resident.get(worker.name, 0),
            worker.num_running / worker.max_running,
            worker.name,
        ),
    )
    return best.name
