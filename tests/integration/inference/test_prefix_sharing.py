"""Reused prompt tokens, seen from outside a worker."""

import pytest

from tests.support.worker_bench import make_ticket, worker_bench

pytestmark = pytest.mark.integration

PROMPT = "please sing a song about the sea and the wind"


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


async def cached_tokens(bench, tenant_id):
    ticket = make_ticket(bench.sealer, tenant_id=tenant_id)
    answer = await bench.generate(PROMPT, ticket=ticket)
    usage = answer.finished.usage
    assert usage.num_cached_prompt_tokens < usage.num_prompt_tokens
    return usage.num_cached_prompt_tokens


async def test_the_tenant_of_the_seal_finds_its_own_prompts_and_nobody_elses_T11(bench):
    assert await cached_tokens(bench, "one") == 0
    assert await cached_tokens(bench, "two") == 0
    found = await cached_tokens(bench, "one")
    assert found > 0
    status = await bench.rest()
    assert status.num_prefix_hit_tokens == found
    assert status.num_prefix_lookup_tokens > found
    assert status.num_cached_kv_blocks > 0


async def test_tickets_without_a_tenant_share_nothing(bench):
    assert [await cached_tokens(bench, "") for _ in range(2)] == [0, 0]


async def test_it_can_be_switched_off():
    async with worker_bench(PREFIX_CACHING="false") as bench:
        assert [await cached_tokens(bench, "one") for _ in range(2)] == [0, 0]
