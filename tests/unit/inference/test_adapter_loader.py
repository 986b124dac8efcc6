"""Adapters are written one after the other, those that somebody waits for first."""

import threading
from pathlib import Path

from services.inference.backends.base import BackendLimits
from services.inference.engine.adapter_loader import LoaderThread
from tests.support.stand_in_backend import StandInBackend, stand_in_weights


class HeldBackend(StandInBackend):
    """Begins to write when it may."""

    def __init__(self):
        super().__init__()
        self.is_writing, self.may_go_on = threading.Event(), threading.Event()
        self.load_model(
            Path(),
            BackendLimits(num_kv_blocks=1, block_size=4, max_loras=8, max_lora_rank=8),
        )

    def load_adapter(self, slot, adapter):
        self.is_writing.set()
        assert self.may_go_on.wait(60)
        return super().load_adapter(slot, adapter)


def test_urgent_ones_are_written_before_those_that_were_there():
    backend = HeldBackend()
    ends = threading.Semaphore(0)
    loader = LoaderThread(backend, lambda done: (done(), ends.release()))
    for slot, is_urgent in enumerate([False, False, True, False, True]):
        loader.load(slot, stand_in_weights(slot), lambda outcome: None, is_urgent=is_urgent)
        assert backend.is_writing.wait(60)
    backend.may_go_on.set()
    for _ in range(5):
        assert ends.acquire(timeout=60)
    loader.close()
    assert backend.loads == [0, 2, 4, 1, 3]


def test_what_has_not_begun_when_it_is_closed_is_dropped():
    backend = HeldBackend()
    outcomes = []
    loader = LoaderThread(backend, lambda done: done())
    for slot in range(3):
        loader.load(slot, stand_in_weights(slot), outcomes.append, is_urgent=slot > 0)
        assert backend.is_writing.wait(60)
    closing = threading.Thread(target=loader.close)
    closing.start()
    while not loader._is_closed:
        pass
    backend.may_go_on.set()
    closing.join()
    assert backend.loads == [0]
    assert len(outcomes) == 1
