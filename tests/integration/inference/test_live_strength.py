"""Strengths changed while a stream runs, on the native core: the same bits as a forward pass that
has the same history."""

import asyncio

import numpy as np
import pytest

from edgelora.errors import ServiceUnavailableError
from services.inference.backends.base import BackendLimits, SequenceChunk, SlotWeight
from services.inference.backends.native_backend import NativeBackend
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.sequence import AdapterUse, Priority, StopConditions
from tests.support.gated_backend import GatedBackend
from tests.support.native_engine import (
    BLOCK_SIZE,
    MAX_RANK,
    native_engine,
    native_weights,
    write_native_model,
)

pytestmark = pytest.mark.integration
PROMPT = np.random.default_rng(1).integers(0, 256, 37).tolist()
ONE = (AdapterUse("1", 1.0),)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)
    folder = tmp_path_factory.mktemp("model")
    write_native_model(folder)
    return folder


def reference_logits(model, token_ids, changes, numbers=(1,)):
    """The logits behind the last token, each run with the strengths that (start, weights) say."""
    backend = NativeBackend(num_threads=1)
    backend.load_model(
        model,
        BackendLimits(num_kv_blocks=9, block_size=BLOCK_SIZE, max_loras=2, max_lora_rank=MAX_RANK),
    )
    for slot, number in enumerate(numbers):
        backend.load_adapter(slot, native_weights(number))
    ends = [start for start, _ in changes[1:]] + [len(token_ids)]
    for (start, weights), end in zip(changes, ends, strict=True):
        logits = backend.forward(
            [
                SequenceChunk(
                    token_ids=np.array(token_ids[start:end], dtype=np.int32),
                    start_position=start,
                    block_table=list(range(8)),
                    adapters=tuple(
                        SlotWeight(slot, weight) for slot, weight in enumerate(weights) if weight
                    ),
                    needs_logits=True,
                )
            ]
        )
    return logits[0]


def submit(bench, adapters=ONE, *, max_tokens=30, **options):
    return bench.engine.submit(
        list(PROMPT), adapters=adapters, stop=StopConditions(max_tokens=max_tokens), **options
    )


async def read(stream):
    """The tokens of a stream up to its end."""
    tokens = []
    async for event in stream:
        if isinstance(event, TextDelta):
            tokens += [token.token_id for token in event.tokens]
    stream.close()
    return tokens


async def steps(backend, count):
    for _ in range(count):
        await asyncio.to_thread(backend.step)


async def change(bench, backend, stream, digest, weight):
    """Sets a strength while a step waits; it is answered behind that step."""
    changing = asyncio.create_task(bench.engine.set_strength(stream, digest, weight))
    await asyncio.sleep(0)
    assert not bench.engine._thread.commands.empty()
    await steps(backend, 1)
    return await changing


async def gated(bench, backend, stream):
    """Runs up to the step that gives the third token, the adapters' proofs included."""
    await asyncio.to_thread(backend.arrived.acquire)
    while not any(len(chunk.token_ids) == 1 for chunks in backend.ran for chunk in chunks):
        await steps(backend, 1)


def weights_by_position(backend):
    """What each token of the stream ran with; the canaries have fewer tokens."""
    ran = {}
    for chunks in backend.ran:
        for chunk in chunks:
            if chunk.block_table and chunk.start_position + len(chunk.token_ids) >= len(PROMPT):
                for offset in range(len(chunk.token_ids)):
                    ran[chunk.start_position + offset] = tuple(use.weight for use in chunk.adapters)
    return ran


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
async def test_a_change_acts_from_the_step_after_and_equals_a_pass_of_the_same_history(
    model, weight
):
    backend = GatedBackend()
    async with native_engine(model, backend=backend) as bench:
        stream = submit(bench)
        reading = asyncio.create_task(read(stream))
        await gated(bench, backend, stream)
        num_run = max(weights_by_position(backend)) + 1
        uses = await change(bench, backend, stream, "1", weight)
        assert uses == (AdapterUse("1", weight),)
        backend.open()
        tokens = PROMPT + await reading
    used = () if weight == 0.0 else (weight,)
    start = num_run + 1  # the step that waited ran as before
    for position, weights in weights_by_position(backend).items():
        assert weights == ((1.0,) if position < start else used)
    history = [(0, (1.0,)), (start, (weight,))]
    for end in (start + 1, start + 7, len(tokens) - 1):
        expected = reference_logits(model, tokens[:end], history)
        assert np.array_equal(backend.logits[-(len(tokens) - end)][0], expected)
        assert tokens[end] == expected.argmax()
    unchanged = reference_logits(model, tokens[: start + 1], [(0, (1.0,))])
    assert not np.array_equal(unchanged, reference_logits(model, tokens[: start + 1], history))


async def test_strength_0_chooses_as_the_base_does_on_the_same_keys_and_values(model):
    backend = GatedBackend()
    async with native_engine(model, backend=backend) as bench:
        stream = submit(bench)
        reading = asyncio.create_task(read(stream))
        await gated(bench, backend, stream)
        start = max(weights_by_position(backend)) + 2
        await change(bench, backend, stream, "1", 0.0)
        backend.open()
        tokens = PROMPT + await reading
    base = reference_logits(model, tokens[: start + 1], [(0, (1.0,)), (start, ())])
    assert np.array_equal(backend.logits[-(len(tokens) - start - 1)][0], base)


async def test_a_stream_that_was_preempted_runs_every_token_as_it_did_before(model):
    backend = GatedBackend()
    async with native_engine(model, max_num_seqs=1, backend=backend) as bench:
        stream = submit(bench, (AdapterUse("1", 1.25),), priority=Priority.BATCH)
        reading = asyncio.create_task(read(stream))
        await gated(bench, backend, stream)
        for weight in (0.5, 0.0, 1.5):
            await change(bench, backend, stream, "1", weight)
        rival = asyncio.create_task(bench.answer(PROMPT[5:], {2: 1.0}, 10))
        await asyncio.sleep(0)
        backend.open()
        tokens = PROMPT + await reading
        await rival
        assert bench.engine.status.num_preemptions == 1
    ran = {}
    for chunk in (chunk for chunks in backend.ran for chunk in chunks):
        end = chunk.start_position + len(chunk.token_ids)
        is_ours = all(use.weight != 1.0 for use in chunk.adapters)  # but for the base's canary
        if is_ours and chunk.token_ids.tolist() == tokens[chunk.start_position : end]:
            for position in range(chunk.start_position, end):
                ran.setdefault(position, []).append(tuple(use.weight for use in chunk.adapters))
    assert any(len(each) > 1 for each in ran.values())  # again, after the preemption
    assert all(len(set(each)) == 1 for each in ran.values())
    history = [(0, ran[0][0])]
    for position in range(1, len(tokens) - 1):
        if ran[position][0] != history[-1][1]:
            history.append((position, ran[position][0]))
    assert [weights for _, weights in history] == [(1.25,), (0.5,), (), (1.5,)]
    for end in range(history[-1][0] + 1, len(tokens)):
        assert tokens[end] == reference_logits(model, tokens[:end], history).argmax()


async def test_a_thousand_changes_from_many_at_once_end_with_the_stream(model):
    async with native_engine(model) as bench:
        stream = submit(bench, max_tokens=80)
        reading = asyncio.create_task(read(stream))

        async def move(offset):
            answers = []
            for count in range(100):
                weight = (count + offset) % 200 / 100
                answers.append(await bench.engine.set_strength(stream, "1", weight))
            return answers

        moved = await asyncio.gather(*(move(offset) for offset in range(10)))
        assert len(await reading) == 80
        answers = [uses for part in moved for uses in part]
        assert len(answers) == 1000
        assert any(uses is not None for uses in answers)
        assert await bench.engine.set_strength(stream, "1", 1.0) is None
        status = bench.engine.status
        assert status.num_free_kv_blocks == status.num_kv_blocks
        assert status.num_adapter_references == 0


async def test_an_engine_that_stops_answers_whoever_asks(model):
    backend = GatedBackend()
    async with native_engine(model, backend=backend) as bench:
        stream = submit(bench)
        await asyncio.to_thread(backend.arrived.acquire)
        asking = asyncio.create_task(bench.engine.set_strength(stream, "1", 0.5))
        await asyncio.sleep(0)
        backend.open()
    with pytest.raises(ServiceUnavailableError):
        await bench.engine.forget("tenant", "")
    (answer,) = await asyncio.gather(asking, return_exceptions=True)
    assert answer in ((AdapterUse("1", 0.5),), None) or isinstance(answer, ServiceUnavailableError)
    stream.close()


async def test_the_shares_of_a_mixed_load_add_up_to_the_time_of_the_steps(model):
    async with native_engine(model, max_loras=3) as bench:
        ends: list[Completed] = []
        for adapters in ({}, {1: 1.0}, {7: 1.0}, {1: 1.0, 7: 0.5}, {1: 0.0}):
            _, end = await bench.answer(PROMPT, adapters, 12, tenant_id=None)
            ends.append(end)
        status = bench.engine.status
        shares = {share.digest: share for share in status.shares}
        assert set(shares) == {"", "1", "7"}
        assert sum(share.step_s for share in shares.values()) == pytest.approx(status.step_s)
        # What the canaries took is the adapters', and no request's.
        assert 0.5 * status.step_s < sum(end.engine_s for end in ends) <= status.step_s * 1.0001
        assert shares[""].num_output_tokens == 24
