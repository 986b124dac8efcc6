"""The engine's thread and the event loop, without a server."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgelora.errors import ServiceUnavailableError
from services.inference.backends.base import BackendLimits
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import AdapterUse, StopConditions
from services.inference.engine.token_stream import TokenStream
from tests.support.stand_in_backend import StandInBackend
from tests.support.step_bench import TOKEN_BYTES, fetched

CONFIG = EngineConfig(
    model_directory=Path(),
    limits=BackendLimits(num_kv_blocks=33, block_size=4, max_loras=2, max_lora_rank=8),
    step=StepLimits(max_num_seqs=4, max_num_batched_tokens=16),
    token_bytes=TOKEN_BYTES,
    eos_token_ids=frozenset(),
    canary_token_ids=(1, 2, 3),
)


class Observer:
    """Loads whatever is wanted."""

    def __init__(self, engine):
        self.engine = engine
        self.loop_thread = threading.get_ident()
        self.died = asyncio.Event()
        self.num_changes = 0

    def adapter_wanted(self, digest, ticket):
        assert threading.get_ident() == self.loop_thread
        self.engine.adapter_ready(digest, fetched(int(digest)))

    def adapter_refused(self, digest, error):
        raise AssertionError

    def residency_changed(self, loads, evictions):
        self.num_changes += 1

    def engine_died(self):
        self.died.set()


@asynccontextmanager
async def running_engine(backend=None):
    engine = Engine(backend or StandInBackend(), CONFIG)
    await engine.start(Observer(engine))
    try:
        yield engine
    finally:
        await engine.stop()


async def read(stream):
    try:
        return [event async for event in stream]
    finally:
        stream.close()


def text(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_a_stream_ends_with_completed_and_then_stops():
    async with running_engine() as engine:
        events = await read(engine.submit([1, 2, 3], stop=StopConditions(max_tokens=5)))
        assert isinstance(events[-1], Completed)
        assert len(text(events)) == 5
        assert engine.num_open_streams == 0


async def test_adapters_are_fetched_through_the_observer():
    async with running_engine() as engine:
        use = (AdapterUse("1", 1.0),)
        stop = StopConditions(max_tokens=5)
        adapted = text(await read(engine.submit([1, 2, 3], adapters=use, stop=stop)))
        base = text(await read(engine.submit([1, 2, 3], stop=stop)))
        assert adapted != base


@pytest.mark.parametrize(
    ("token_ids", "changes"),
    [
        ([], {}),
        ([1] * 100, {"stop": StopConditions(max_tokens=29)}),
        ([1], {"adapters": (AdapterUse("1", 1.0), AdapterUse("1", 0.5))}),
        ([1], {"adapters": tuple(AdapterUse(str(n), 1.0) for n in range(3))}),
    ],
)
async def test_what_could_never_run_is_refused_at_once(token_ids, changes):
    async with running_engine() as engine:
        with pytest.raises(ValueError, match=r"fit|twice|more adapters"):
            engine.submit(token_ids, **changes)
        assert engine.num_open_streams == 0


async def test_calls_before_the_model_is_loaded_are_told_to_wait():
    engine = Engine(StandInBackend(), CONFIG)
    with pytest.raises(ServiceUnavailableError):
        engine.submit([1, 2])
    with pytest.raises(ServiceUnavailableError):
        _ = engine.status
    await engine.stop()


async def test_a_model_that_can_not_be_loaded_fails_the_start():
    class Broken(StandInBackend):
        def load_model(self, directory, limits):
            raise FileNotFoundError("no model")

    engine = Engine(Broken(), CONFIG)
    with pytest.raises(FileNotFoundError):
        await engine.start(Observer(engine))
    await engine.stop()


async def test_stopping_cuts_open_streams_and_ends_the_thread():
    async with running_engine() as engine:
        stream = engine.submit([1], stop=StopConditions(max_tokens=100))
        await anext(stream)
        await engine.stop()
        with pytest.raises(ServiceUnavailableError):
            await read(stream)
        assert not any(thread.name == "engine" for thread in threading.enumerate())


async def test_streams_go_on_while_an_adapter_is_written_Q05():
    class Slow(StandInBackend):
        may_go_on = threading.Event()

        def load_adapter(self, slot, adapter):
            assert threading.current_thread().name == "adapter-loader"
            assert self.may_go_on.wait(60)
            return super().load_adapter(slot, adapter)

    backend = Slow()
    stop = StopConditions(max_tokens=5)
    async with running_engine(backend) as engine:
        adapted = engine.submit([1, 2, 3], adapters=(AdapterUse("1", 1.0),), stop=stop)
        for _ in range(3):
            assert len(text(await read(engine.submit([1, 2, 3], stop=stop)))) == 5
        assert engine.status.num_loading_adapters == 1
        backend.may_go_on.set()
        assert len(text(await read(adapted))) == 5


async def test_a_step_that_hangs_is_a_stall_whatever_loads_and_a_wait_for_an_adapter_is_none():
    class Slow(StandInBackend):
        is_loading, may_load, is_stepping, may_step = (threading.Event() for _ in range(4))

        def load_adapter(self, slot, adapter):
            self.is_loading.set()
            assert self.may_load.wait(60)
            return super().load_adapter(slot, adapter)

    def hang(chunks):
        Slow.is_stepping.set()
        assert Slow.may_step.wait(60)

    backend = Slow()
    stop = StopConditions(max_tokens=5)
    async with running_engine(backend) as engine:
        adapted = engine.submit([1, 2, 3], adapters=(AdapterUse("1", 1.0),), stop=stop)
        await asyncio.to_thread(Slow.is_loading.wait)
        while engine.stalled_s():  # noqa: ASYNC110 - nothing tells that the thread fell asleep
            await asyncio.sleep(0)
        backend.before_forward = hang
        base = engine.submit([1, 2, 3], stop=stop)
        await asyncio.to_thread(Slow.is_stepping.wait)
        assert engine.stalled_s() > 0.0
        Slow.may_step.set()
        Slow.may_load.set()
        assert len(text(await read(base))) == len(text(await read(adapted))) == 5


async def test_a_back_end_that_can_not_load_beside_a_step_loads_between_two():
    class Single(StandInBackend):
        loads_beside_forward = False

        def load_adapter(self, slot, adapter):
            assert threading.current_thread().name == "engine"
            return super().load_adapter(slot, adapter)

    async with running_engine(Single()) as engine:
        use, stop = (AdapterUse("1", 1.0),), StopConditions(max_tokens=5)
        stream = engine.submit([1, 2, 3], adapters=use, stop=stop)
        assert isinstance((await read(stream))[-1], Completed)


async def test_stopping_waits_for_the_load_under_way():
    class Slow(StandInBackend):
        has_begun, may_go_on, has_ended = (threading.Event() for _ in range(3))

        def load_adapter(self, slot, adapter):
            self.has_begun.set()
            assert self.may_go_on.wait(60)
            self.has_ended.set()
            return 0

    backend = Slow()
    async with running_engine(backend) as engine:
        use, stop = (AdapterUse("1", 1.0),), StopConditions(max_tokens=5)
        engine.submit([1, 2, 3], adapters=use, stop=stop)
        await asyncio.to_thread(backend.has_begun.wait)
        stopping = asyncio.create_task(engine.stop())
        backend.may_go_on.set()
        await stopping
        assert backend.has_ended.is_set()
        names = {thread.name for thread in threading.enumerate()}
        assert not names & {"engine", "adapter-loader"}


async def test_an_idle_engine_uses_no_processor_time():
    async with running_engine() as engine:
        await read(engine.submit([1], stop=StopConditions(max_tokens=3)))
        thread = next(t for t in threading.enumerate() if t.name == "engine")
        clock = time.pthread_getcpuclockid(thread.ident)
        await asyncio.sleep(0.05)
        used_s = time.clock_gettime(clock)
        await asyncio.sleep(0.5)
        assert time.clock_gettime(clock) - used_s < 0.005


async def test_cancel_then_add_keep_their_order():
    async with running_engine() as engine:
        for _ in range(200):
            engine.submit([1], stop=StopConditions(max_tokens=100)).close()
        events = await read(engine.submit([1], stop=StopConditions(max_tokens=2)))
        assert isinstance(events[-1], Completed)
        assert engine.status.num_running == engine.status.num_waiting == 0


async def test_a_slow_reader_gets_few_large_pieces():
    stream = TokenStream(lambda: None)
    for piece in "abc":
        stream.deliver(TextDelta(piece, ()))
    assert (await anext(stream)).text == "abc"


async def test_nothing_is_delivered_after_a_close():
    closed = []
    stream = TokenStream(lambda: closed.append(1))
    stream.close()
    stream.close()
    stream.deliver(TextDelta("late", ()))
    assert [event async for event in stream] == []
    assert closed == [1]
