"""Writes adapters into slots, beside the steps where the back end allows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import PriorityQueue
from typing import Protocol

from services.inference.backends.base import Backend, EncodedAdapter, LoadableAdapter
from services.inference.low_priority import lower_thread_priority
from services.inference.spare_memory import trim_heap


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """How a load ended."""

    size_bytes: int
    """What the slot holds; 0 after an error."""
    decode_s: float
    error: Exception | None = None


LoadDone = Callable[[LoadOutcome], None]
"""Told in the engine's thread how a load ended."""


class AdapterLoader(Protocol):
    """Fills the slots of a back end."""

    def load(self, slot: int, adapter: LoadableAdapter, done: LoadDone, *, is_urgent: bool) -> None:
        """Writes an adapter into an empty slot that no row uses before `done` is called.

        `is_urgent`: before those that are not.
        """
        ...

    def close(self) -> None:
        """Waits for the load under way; what has not begun is dropped."""
        ...


class InlineLoader:
    """Loads at once, in the engine's thread, while no step runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def load(self, slot: int, adapter: LoadableAdapter, done: LoadDone, *, is_urgent: bool) -> None:
        """See AdapterLoader."""
        done(_load(self._backend, slot, adapter))

    def close(self) -> None:
        """See AdapterLoader."""


@dataclass(frozen=True, slots=True, order=True)
class _Job:
    """What sorts first is done first."""

    is_patient: bool
    number: int
    load: tuple[int, LoadableAdapter, LoadDone] | None = field(compare=False)
    """None ends the thread."""


class LoaderThread:
    """Loads one adapter after the other in a thread of its own, which yields to the steps."""

    def __init__(self, backend: Backend, post: Callable[[Callable[[], None]], None]) -> None:
        """`post` has a function called in the engine's thread between two steps."""
        self._backend = backend
        self._post = post
        self._jobs: PriorityQueue[_Job] = PriorityQueue()
        self._numbers = count()
        self._is_closed = False
        # A daemon, so that a load that hangs can not keep the process.
        self._thread = threading.Thread(target=self._run, name="adapter-loader", daemon=True)
        self._thread.start()

    def load(self, slot: int, adapter: LoadableAdapter, done: LoadDone, *, is_urgent: bool) -> None:
        """See AdapterLoader."""
        self._jobs.put(_Job(not is_urgent, next(self._numbers), (slot, adapter, done)))

    def close(self) -> None:
        """See AdapterLoader."""
        self._is_closed = True
        self._jobs.put(_Job(True, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        lower_thread_priority()
        while (load := self._jobs.get().load) is not None and not self._is_closed:
            slot, adapter, done = load
            self._post(partial(done, _load(self._backend, slot, adapter)))
            is_on_heap = not isinstance(adapter, EncodedAdapter)
            # An adapter is large: nothing may keep it while this thread waits for the next one.
            del load, adapter, done
            if is_on_heap:
                trim_heap()


def _load(backend: Backend, slot: int, adapter: LoadableAdapter) -> LoadOutcome:
    started_s = time.perf_counter()
    try:
        size_bytes = backend.load_adapter(slot, adapter)
    except Exception as error:  # noqa: BLE001 - a bad adapter must not end the engine
        return LoadOutcome(0, time.perf_counter() - started_s, error)
    return LoadOutcome(size_bytes, time.perf_counter() - started_s)
