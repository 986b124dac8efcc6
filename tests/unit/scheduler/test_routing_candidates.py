"""What is kept of each tenant's candidates: fresh, its own, and bounded."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from edgelora.errors import ServiceUnavailableError
from services.scheduler.routing.candidates import CandidateCache
from tests.support.candidate_shelf import CandidateShelf, claim_of
from tests.support.small_router import small_router


class CountingRouter:
    """The small router, which counts the cards it reads."""

    def __init__(self) -> None:
        self._router = small_router()
        self.num_read = 0

    def prototype(self, description, examples):
        self.num_read += 1
        return self._router.prototype(description, examples)

    def table(self, prototypes):
        return self._router.table(prototypes)


class HeldRouter(CountingRouter):
    """A counting router that waits with its first card."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()
        self.read: list[str] = []

    def prototype(self, description, examples):
        self.is_reading.set()
        assert self.may_go_on.wait(30)
        self.read.append(examples[0])
        return super().prototype(description, examples)


@pytest.fixture
def shelf():
    return CandidateShelf()


def digests(candidate_set) -> list[str]:
    return [candidate.digest for candidate in candidate_set.candidates]


async def test_a_card_is_read_once_until_it_changes(shelf):
    cache, router = CandidateCache(shelf), CountingRouter()
    shelf.put("acme", 1, "Write a mail")
    two = shelf.put("acme", 2, "Bake a cake")
    first, _ = await cache.current(claim_of("acme"), "acme", router, None)
    again, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert again is first
    assert shelf.num_listed == [2, 0]
    assert router.num_read == 2
    shelf.put("acme", 1, "Write a letter")
    changed, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert router.num_read == 3
    assert changed.candidates[1].digest == two
    assert changed.candidates[1].prototype is first.candidates[1].prototype


async def test_new_and_deleted_adapters_count_at_once(shelf):
    cache, router = CandidateCache(shelf), small_router()
    one = shelf.put("acme", 1, "Write a mail")
    known, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert digests(known) == [one]
    two = shelf.put("acme", 2, "Bake a cake")
    known, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert digests(known) == [one, two]
    shelf.delete("acme", one)
    known, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert digests(known) == [two]


async def test_residency_is_fresh_while_the_candidates_are_known(shelf):
    cache, router = CandidateCache(shelf), small_router()
    one = shelf.put("acme", 1, "Write a mail")
    for resident in (set(), {one}, set()):
        shelf.resident = resident
        _, told = await cache.current(claim_of("acme"), "acme", router, None)
        assert told == resident


async def test_a_description_alone_is_enough_and_nothing_at_all_is_not(shelf):
    cache = CandidateCache(shelf)
    told = shelf.put("acme", 1, description="Writes mails")
    shelf.put("acme", 2)
    shelf.put("acme", 3, " ", description="\n")
    known, _ = await cache.current(claim_of("acme"), "acme", small_router(), None)
    assert digests(known) == [told]


async def test_another_router_reads_all_cards_again(shelf):
    cache = CandidateCache(shelf)
    shelf.put("acme", 1, "Write a mail")
    old, new = CountingRouter(), CountingRouter()
    for router in (old, new, new):
        known, _ = await cache.current(claim_of("acme"), "acme", router, None)
        assert known.router is router
    assert (old.num_read, new.num_read) == (1, 1)


async def test_requests_that_come_together_read_the_cards_once(shelf):
    cache, router = CandidateCache(shelf), CountingRouter()
    for number in range(8):
        shelf.put("acme", number, "Write a mail")
    await asyncio.gather(
        *(cache.current(claim_of("acme"), "acme", router, None) for _ in range(10))
    )
    assert router.num_read == 8


async def test_a_tenant_does_not_wait_for_all_cards_of_another_one(shelf):
    cache, router = CandidateCache(shelf), HeldRouter()
    for number in range(20):
        shelf.put("large", number, "large")
    shelf.put("small", 20, "small")
    large = asyncio.create_task(cache.current(claim_of("large"), "large", router, None))
    await asyncio.to_thread(router.is_reading.wait, 30)
    small = asyncio.create_task(cache.current(claim_of("small"), "small", router, None))
    for _ in range(20):
        await asyncio.sleep(0)
    router.may_go_on.set()
    await asyncio.gather(large, small)
    assert router.read.index("small") <= 2, "after the card being read, and one more"


async def test_cards_are_read_to_the_end_though_the_client_left(shelf):
    cache, router = CandidateCache(shelf), HeldRouter()
    for number in range(8):
        shelf.put("acme", number, "Write a mail")
    for _ in range(3):
        leaving = asyncio.create_task(cache.current(claim_of("acme"), "acme", router, None))
        await asyncio.to_thread(router.is_reading.wait, 30)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    router.may_go_on.set()
    known, _ = await cache.current(claim_of("acme"), "acme", router, None)
    assert len(known.candidates) == router.num_read == 8
    assert shelf.num_listed == [8, 0], "who comes meanwhile is not sent all cards too"


async def test_tenants_share_nothing_even_where_they_have_the_same_adapter(shelf):
    """A card another tenant has read already must not be quicker to read: it would tell of it."""
    cache, router = CandidateCache(shelf), CountingRouter()
    for tenant_id in ("acme", "mallory"):
        shelf.put(tenant_id, 1, "Write a mail")
        await cache.current(claim_of(tenant_id), tenant_id, router, None)
    assert router.num_read == 2


async def test_what_is_kept_is_bounded_and_the_least_recent_tenant_goes(shelf):
    for tenant_id in ("a", "b", "c"):
        shelf.put(tenant_id, 1, "the same prompt")
    one, _ = await CandidateCache(shelf).current(claim_of("a"), "a", small_router(), None)
    assert one.size_bytes > 32 * 4
    cache, router = CandidateCache(shelf, max_bytes=int(2.5 * one.size_bytes)), CountingRouter()
    for tenant_id in ("a", "b", "a", "c", "a", "b"):
        await cache.current(claim_of(tenant_id), tenant_id, router, None)
    assert router.num_read == 4, "only b was read twice"


async def test_one_tenant_larger_than_the_bound_is_served_all_the_same(shelf):
    cache, router = CandidateCache(shelf, max_bytes=1), CountingRouter()
    shelf.put("a", 1, "one", "two")
    for _ in range(2):
        known, _ = await cache.current(claim_of("a"), "a", router, None)
        assert len(known.table.examples) == 2
    assert router.num_read == 1


async def test_a_store_that_is_away_is_told(shelf):
    shelf.is_away = True
    with pytest.raises(ServiceUnavailableError, match="adapter store"):
        await CandidateCache(shelf).current(claim_of("a"), "a", small_router(), None)


async def test_adapters_above_the_ceiling_or_of_unknown_rank_are_left_out(shelf):
    ranks = {
        8: shelf.put("a", 1, "one", lowest_rank=8),
        16: shelf.put("a", 2, "two", lowest_rank=16),
    }
    unknown = shelf.put("a", 3, "three", lowest_rank=0)
    cache, router = CandidateCache(shelf), CountingRouter()

    async def under(max_rank: int | None):
        known, _ = await cache.current(claim_of("a"), "a", router, max_rank)
        assert len(known.table.means) == len(known.candidates)
        return known

    everyone = await under(None)
    assert digests(everyone) == [ranks[8], ranks[16], unknown]
    low = await under(8)
    assert digests(low) == [ranks[8]]
    np.testing.assert_array_equal(low.table.means, everyone.table.means[:1])
    assert digests(await under(16)) == [ranks[8], ranks[16]]
    assert digests(await under(7)) == []
    assert digests(await under(None)) == digests(everyone)
    assert router.num_read == 3, "no card is read again for another ceiling"
    assert await under(None) is await under(None)
