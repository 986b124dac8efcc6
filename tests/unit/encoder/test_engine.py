"""The encoder's engine over a thread: what callers are told, whatever happens."""

import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from edgelora.errors import QueueFullError, ServiceUnavailableError
from services.inference.encoder.backend import EncoderLimits
from services.inference.encoder.engine import EncoderEngine
from services.inference.encoder.step_loop import EncoderEngineConfig
from services.inference.encoder.text_queue import StepBudget
from services.inference.engine.sequence import AdapterUse
from tests.support.fake_clock import FakeClock
from tests.support.plain_encoder import PlainEncoder, expected_vector

IDS = np.array([5, 6, 7], np.int32)


class Observer:
    """Takes what the engine tells."""

    def __init__(self):
        self.wanted = asyncio.Event()
        self.is_dead = False

    def adapter_wanted(self, digest, ticket):
        self.wanted.set()

    def adapter_refused(self, digest, error):
        raise AssertionError(digest)

    def residency_changed(self, loads, evictions):
        pass

    def engine_died(self):
        self.is_dead = True


@asynccontextmanager
async def started(backend, clock=None, max_requests=3):
    config = EncoderEngineConfig(
        model_directory=Path(),
        limits=EncoderLimits(max_loras=2, max_lora_rank=8, max_step_tokens=64),
        budget=StepBudget(max_step_tokens=64, lower_step_tokens=32, aging_s=5.0),
        canary_token_ids=IDS,
        pooling="mean",
        max_requests=max_requests,
    )
    engine = EncoderEngine(backend, config, clock=clock or FakeClock())
    with pytest.raises(ServiceUnavailableError, match="loading its model"):
        await engine.encode([IDS])
    engine.observer = Observer()
    await engine.start(engine.observer)
    try:
        yield engine
    finally:
        await engine.stop()


class Gate:
    """Holds the steps of a back end."""

    def __init__(self, backend):
        self.entered = threading.Event()
        self.open = threading.Event()
        backend.fail_on = self._wait

    def _wait(self, texts):
        self.entered.set()
        assert self.open.wait(30)


async def test_callers_get_their_own_vectors():
    async with started(PlainEncoder(), max_requests=50) as engine:
        texts = [np.array([5 + number], np.int32) for number in range(50)]
        found = await asyncio.gather(*[engine.encode([text]) for text in texts])
        for text, encoded in zip(texts, found, strict=True):
            assert np.array_equal(encoded.vectors[0], expected_vector(text, "mean", []))
        assert engine.num_open_requests == 0


async def test_a_full_queue_refuses_and_those_who_leave_make_room():
    backend = PlainEncoder()
    gate = Gate(backend)
    async with started(backend) as engine:
        held = [asyncio.create_task(engine.encode([IDS])) for _ in range(3)]
        await asyncio.to_thread(gate.entered.wait)
        with pytest.raises(QueueFullError):
            await engine.encode([IDS])
        held[2].cancel()
        await asyncio.wait([held[2]])
        assert held[2].cancelled()
        last = asyncio.create_task(engine.encode([IDS + 1]))
        gate.open.set()
        await asyncio.gather(*held[:2], last)
        # Whoever left while it waited was never run.
        num_texts = sum(len(step) for step in backend.steps)
        assert num_texts == engine.status.num_texts <= 4


async def test_a_step_that_hangs_is_seen_and_one_that_waits_for_an_adapter_is_not():
    backend, clock = PlainEncoder(), FakeClock()
    gate = Gate(backend)
    async with started(backend, clock) as engine:
        assert engine.stalled_s() == 0
        call = asyncio.create_task(engine.encode([IDS]))
        await asyncio.to_thread(gate.entered.wait)
        clock.advance(7.0)
        assert engine.stalled_s() == 7.0
        gate.open.set()
        await call
        assert engine.stalled_s() == 0
        waiting = asyncio.create_task(engine.encode([IDS], adapters=(AdapterUse("a", 1.0),)))
        await engine.observer.wanted.wait()
        clock.advance(7.0)
        while engine.stalled_s():  # noqa: ASYNC110 - the thread tells nobody that it sleeps
            await asyncio.sleep(0)
        waiting.cancel()


async def test_stopping_ends_what_is_open():
    async with started(PlainEncoder()) as engine:
        call = asyncio.create_task(engine.encode([IDS], adapters=(AdapterUse("a", 1.0),)))
        await engine.observer.wanted.wait()
        await engine.stop()
        with pytest.raises(ServiceUnavailableError, match="shutting down"):
            await call
