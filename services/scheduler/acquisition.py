"""What is known of one Acquire once it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgelora.error_tree import EdgeLoraError
from edgelora.v1.degradation_pb2 import Degradation
from edgelora.v1.routing_pb2 import Routing
from services.scheduler.lanes import Task
from services.scheduler.request import Priority


@dataclass(slots=True, kw_only=True)
class Acquisition:
    """Filled while the call runs. Nothing the user typed is in it."""

    task: Task
    priority: Priority
    wait_s: float | None = None
    """From the queue to the place, None for who got none."""
    routing: Routing | None = None
    """What the router chose, None where it was not asked."""
    degradations: Sequence[Degradation] = field(default_factory=tuple)
    """How it is served otherwise than asked."""
    error: EdgeLoraError | None = None
    """What it ended with; None for a grant, and for a caller that left."""


AcquisitionObserver = Callable[[Acquisition], None]
"""Called on the event loop, once for each that was let in; must be quick and must not raise."""


@contextmanager
def told(
    observe: AcquisitionObserver | None, task: Task, priority: Priority
) -> Iterator[Acquisition]:
    """Tells an observer how what is inside has ended."""
    acquisition = Acquisition(task=task, priority=priority)
    try:
        yield acquisition
    except EdgeLoraError as error:
        acquisition.error = error
        raise
    finally:
        if observe is not None:
            observe(acquisition)
