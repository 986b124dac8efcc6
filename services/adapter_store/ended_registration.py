"""What is known of one registration once it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgelora.error_tree import EdgeLoraError


@dataclass(slots=True, kw_only=True)
class EndedRegistration:
    """Filled while it runs. Nothing of the adapter's own words is in it."""

    is_new: bool | None = None
    """Whether its content was new to the tenant; None where nothing was registered."""
    verify_s: float | None = None
    """What proving and encoding it took, the wait for a turn left out; None where that failed."""
    error: EdgeLoraError | None = None
    """What it was refused with; None too for a caller that left."""


RegistrationObserver = Callable[[EndedRegistration], None]
"""Called on the event loop, once for each; must be quick and must not raise."""


@contextmanager
def told(observe: RegistrationObserver | None) -> Iterator[EndedRegistration]:
    """Tells an observer how what is inside has ended."""
    ended = EndedRegistration()
    try:
        yield ended
    except EdgeLoraError as error:
        ended.error = error
        raise
    finally:
        if observe is not None:
            observe(ended)
