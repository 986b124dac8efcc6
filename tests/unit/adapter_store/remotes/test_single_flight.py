import asyncio

import pytest

from services.adapter_store.remotes.single_flight import SingleFlight


class Work:
    def __init__(self):
        self.num_starts = 0
        self.released = []
        self.go = asyncio.Event()
        self.error = None
        self.flights = SingleFlight(self.released.append)

    async def __call__(self):
        self.num_starts += 1
        await self.go.wait()
        if self.error:
            raise self.error
        return self.num_starts

    async def take(self):
        async with self.flights.join("key", self) as result:
            assert self.released == []
            return result


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_share_one_result_which_is_released_once():
    work = Work()
    takers = [asyncio.ensure_future(work.take()) for _ in range(10)]
    await settle()
    assert work.flights.is_running("key")
    work.go.set()
    assert await asyncio.gather(*takers) == [1] * 10
    await settle()
    assert (work.num_starts, work.released) == (1, [1])
    assert not work.flights.is_running("key")


async def test_an_error_reaches_everybody_and_the_next_starts_anew():
    work = Work()
    work.error = ValueError("no")
    takers = [asyncio.ensure_future(work.take()) for _ in range(3)]
    work.go.set()
    results = await asyncio.gather(*takers, return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    work.error = None
    assert await work.take() == 2
    assert work.released == [2]


async def test_a_cancelled_waiter_leaves_the_work_to_the_others():
    work = Work()
    first, second = asyncio.ensure_future(work.take()), asyncio.ensure_future(work.take())
    await settle()
    first.cancel()
    await settle()
    work.go.set()
    assert await second == 1


async def test_the_last_waiter_ends_the_work_and_a_newcomer_waits_for_its_end():
    work = Work()
    cleaning = asyncio.Event()

    async def slow_to_end():
        work.num_starts += 1
        try:
            await asyncio.Event().wait()
        finally:
            await cleaning.wait()

    async def take_slow():
        async with work.flights.join("key", slow_to_end):
            pytest.fail("it never ends well")

    first = asyncio.ensure_future(take_slow())
    await settle()
    first.cancel()
    await settle()
    newcomer = asyncio.ensure_future(work.take())
    await settle()
    assert work.num_starts == 1
    assert not work.flights.is_running("key")
    cleaning.set()
    work.go.set()
    assert await newcomer == 2
    assert first.cancelled()


async def test_a_result_nobody_waits_for_any_more_is_released():
    work = Work()
    taker = asyncio.ensure_future(work.take())
    await settle()
    work.go.set()
    await asyncio.sleep(0)  # the work is done, the taker has not seen it
    taker.cancel()
    await asyncio.gather(taker, return_exceptions=True)
    await settle()
    assert work.released == [1]
