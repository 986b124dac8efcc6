"""Writes adapters into slots, beside the steps where the back end allows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from edgelora.adapter_format.weights import AdapterWeights
from services.inference.backends.base import Backend
from services.inference.spare_memory import trim_heap

LoadDone = Callable[[Exception | None], None]
"""Told in the engine's thread how a load ended: the error, or None."""


class AdapterLoader(Protocol):
    """Fills the slots of a back end."""

    def load(self, slot: int, weights: AdapterWeights, done: LoadDone) -> None:
        """Writes weights into an empty slot that no row uses before `done` is called."""
        ...

    def close(self) -> None:
        """Waits for the load under way; what has not begun is dropped."""
        ...


class InlineLoader:
    """Loads at once, in the engine's thread, while no step runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def load(self, slot: int, weights: AdapterWeights, done: LoadDone) -> None:
        """See AdapterLoader."""
        done(_load(self._backend, slot, weights))

    def close(self) -> None:
        """See AdapterLoader."""


class LoaderThread:
    """Loads one adapter after the other in a thread of its own."""

    def __init__(self, backend: Backend, post: Callable[[Callable[[], None]], None]) -> None:
        """`post` has a function called in the engine's thread between two steps."""
        self._backend = backend
        self._post = post
        self._jobs: SimpleQueue[tuple[int, AdapterWeights, LoadDone] | None] = SimpleQueue()
        self._is_closed = False
        # A daemon, so that a load that hangs can not keep the process.
        self._thread = threading.Thread(target=self._run, name="adapter-loader", daemon=True)
        self._thread.start()

    def load(self, slot: int, weights: AdapterWeights, done: LoadDone) -> None:
        """See AdapterLoader."""
        self._jobs.put((slot, weights, done))

    def close(self) -> None:
        """See AdapterLoader."""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._is_closed:
            slot, weights, done = job
            self._post(partial(done, _load(self._backend, slot, weights)))
            # An adapter is large: nothing may keep it while this thread waits for the next one.
            del job, weights, done
            trim_heap()


def _load(backend: Backend, slot: int, weights: AdapterWeights) -> Exception | None:
    try:
        backend.load_adapter(slot, weights)
    except Exception as error:  # noqa: BLE001 - a bad adapter must not end the engine
        return error
    return None
