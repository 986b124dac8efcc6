"""The engine on the native core: the same bits whatever is shared, cut, preempted or loaded."""

import asyncio

import numpy as np
import pytest

from services.inference.backends.native_backend import NativeBackend
from services.inference.engine.sequence import Priority, SamplingParams
from tests.support.native_engine import native_engine, write_native_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)
    folder = tmp_path_factory.mktemp("model")
    write_native_model(folder)
    return folder


def random_tokens(count, seed):
    return np.random.default_rng(seed).integers(0, 256, count).tolist()


async def alone(model, asked):
    """What each request is answered when nothing is shared and nobody else is there."""
    async with native_engine(model, prefix_caching=False, max_loras=8) as bench:
        return [(await bench.answer(*request))[0] for request in asked]


async def test_a_step_budget_below_the_canary_changes_no_bit(model):
    asked = [(random_tokens(9, 3), {1: 1.0}, 6), (random_tokens(5, 4), {}, 6)]
    expected = await alone(model, asked)
    async with native_engine(model, budget=2, max_num_seqs=2) as bench:
        answers = await asyncio.gather(*(bench.answer(*request) for request in asked))
    assert [tokens for tokens, _ in answers] == expected


@pytest.mark.parametrize("budget", [8, 24, 96])
async def test_hits_chunks_preemptions_and_company_change_no_bit_I4_Q07_Q12(model, budget):
    system, other = random_tokens(64, 1), random_tokens(40, 2)
    asked = [
        (system + random_tokens(1, 3), {}, 50),
        (system + random_tokens(9, 4), {}, 50),
        (system, {}, 5),
        (system[:33] + random_tokens(20, 5), {1: 1.0}, 60),
        (system + random_tokens(17, 6), {1: 1.0}, 40),
        (system + random_tokens(17, 6), {1: 0.5}, 40),
        (system + random_tokens(3, 7), {1: 1.0, 2: 0.5}, 40),
        (other, {2: 1.0}, 60),
        (other + random_tokens(5, 8), {3: 1.0}, 60),
    ]
    expected = await alone(model, asked)
    async with native_engine(model, num_blocks=20, budget=budget) as bench:
        for _ in range(3):
            answers = await asyncio.gather(*(bench.answer(*request) for request in asked))
            assert [tokens for tokens, _ in answers] == expected
    status = bench.engine.status
    assert 0 < status.num_prefix_hit_tokens < status.num_prefix_lookup_tokens
    assert status.num_preemptions > 0
    assert status.num_free_kv_blocks == status.num_kv_blocks


async def test_a_hit_runs_only_what_is_new_and_answers_the_same_bits(model):
    prompt = random_tokens(70, 1)
    asked = [(prompt, adapters, 12) for adapters in ({}, {1: 1.0}, {1: 0.5}, {1: 1.0, 2: 1.0})]
    expected = await alone(model, asked)
    async with native_engine(model) as bench:
        for num_cached in (0, 64):
            for request, tokens in zip(asked, expected, strict=True):
                got, end = await bench.answer(*request)
                assert got == tokens
                assert end.num_cached_prompt_tokens == num_cached
        _, end = await bench.answer(*asked[0], tenant_id="another")
        assert end.num_cached_prompt_tokens == 0


async def test_a_seed_draws_the_same_tokens_alone_and_in_company(model):
    prompt = random_tokens(40, 1)
    settings = [
        {"temperature": 0.8, "seed": 1},
        {"temperature": 0.8, "seed": 2},
        {"temperature": 1.5, "top_p": 0.95, "seed": 3},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "seed": 4},
        {"temperature": 1.0, "repetition_penalty": 1.2, "presence_penalty": 0.5, "seed": 5},
        {"repetition_penalty": 1.3, "frequency_penalty": 0.2},
    ]
    asked = [
        (prompt, adapters, 24, "tenant", SamplingParams(**each))
        for each in settings
        for adapters in ({}, {1: 1.0})
    ]
    expected = await alone(model, asked)
    assert len({str(tokens) for tokens in expected}) == len(asked)
    async with native_engine(model, num_blocks=30, budget=24) as bench:
        for _ in range(2):
            answers = await asyncio.gather(*(bench.answer(*request) for request in asked))
            assert [tokens for tokens, _ in answers] == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": 2**32 - 1},
        {"top_k": 1},
        {"top_p": 1e-300},
        {"min_p": 1e-300},
        {"min_p": 1.0},
        {"temperature": 1e-300},
        {"temperature": 2.0, "top_p": 1 - 2**-53},
        {"repetition_penalty": 1e-300},
        {"repetition_penalty": 2.0, "presence_penalty": -2.0, "frequency_penalty": 2.0},
        {"seed": 2**64 - 1},
    ],
)
async def test_settings_at_their_bounds_are_served_T17(model, settings):
    sampling = SamplingParams(**({"temperature": 1.0, "seed": 1} | settings))
    async with native_engine(model) as bench:
        tokens, _ = await bench.answer(random_tokens(20, 1), {}, 8, sampling=sampling)
        assert len(tokens) == 8
        assert bench.engine.status.num_failed_rows == 0


async def test_adapters_come_and_go_beside_streams_that_never_notice_Q05_Q08(model):
    anchors = [(random_tokens(20, n), {n: 1.0}, 100) for n in (1, 2)]
    passers = [(random_tokens(20, n), {n: 1.0}, 2) for n in range(3, 9)]
    expected = await alone(model, [*anchors, *passers])
    async with native_engine(model, max_loras=3) as bench:
        first = await asyncio.gather(*(bench.answer(p, a, 1) for p, a, _ in anchors))
        assert all(end.adapter_load_s > 0 for _, end in first)
        is_over = False

        async def pass_by():
            """One slot is left, so every request of another adapter takes it from the last."""
            count = 0
            while not is_over or count < 30:
                number = count % len(passers)
                tokens, _ = await bench.answer(*passers[number])
                assert tokens == expected[len(anchors) + number]
                count += 1

        passing = asyncio.create_task(pass_by())
        for _ in range(6):
            answers = await asyncio.gather(*(bench.answer(*request) for request in anchors))
            assert [tokens for tokens, _ in answers] == expected[: len(anchors)]
        is_over = True
        await passing
        assert bench.observer.num_fetched >= 30


async def test_classes_threads_and_turns_change_no_bit_I4_I5_Q05_Q08(model):
    """Batch streams give way again and again, while adapters and the number of threads change."""
    common = random_tokens(32, 1)
    batch = [
        (common + random_tokens(5 * n, n), {n % 5: 1.0} if n % 5 else {}, 55) for n in range(8)
    ]
    urgent = [(common + random_tokens(3, 40 + n), {1 + n % 6: 1.0}, 3) for n in range(12)]
    expected = await alone(model, [*batch, *urgent])
    async with native_engine(
        model, num_blocks=24, max_loras=2, max_num_seqs=4, aging_s=0.05
    ) as bench:
        classes = [Priority.BATCH, Priority.BACKGROUND]
        running = [
            asyncio.create_task(bench.answer(*request, priority=classes[number % 2]))
            for number, request in enumerate(batch)
        ]
        count = 0
        while not all(task.done() for task in running) or count < len(urgent):
            share = 1.0 if count % 3 else 0.5
            bench.engine.limit(seqs=share, prefill=share, threads=share)
            number = count % len(urgent)
            tokens, _ = await bench.answer(*urgent[number])
            assert tokens == expected[len(batch) + number]
            count += 1
        ends = await asyncio.gather(*running)
        assert [tokens for tokens, _ in ends] == expected[: len(batch)]
        assert sum(end.num_preemptions for _, end in ends) > 0
        status = bench.engine.status
        assert status.num_free_kv_blocks == status.num_kv_blocks
        assert status.num_adapter_references == status.num_running == status.num_waiting == 0
