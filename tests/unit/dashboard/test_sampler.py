import asyncio
import json

import pytest

from services.gateway.dashboard.sampler import Sampler
from tests.support.ended_generations import ended


class SilentNode:
    """Nobody answers; a look can be made to break."""

    def __init__(self):
        self.looks = asyncio.Semaphore(0)
        self.num_library_looks = 0
        self.failures = 0

    async def queues(self):
        self.looks.release()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a fault of ours")

    async def nothing(self):
        return None

    monitored = tiers = engine = encoder = nothing

    async def library(self):
        self.num_library_looks += 1


class NothingIsReady:
    def __init__(self):
        self.services = {"scheduler": False}
        self.model = self.encoder = None


@pytest.fixture
def node():
    return SilentNode()


@pytest.fixture
async def sampler(node):
    sampler = Sampler(node, NothingIsReady())
    task = asyncio.create_task(sampler.run())
    yield sampler
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_while_nobody_watches_the_library_is_left_alone(sampler, node):
    await node.looks.acquire()
    assert node.num_library_looks == 0


async def test_somebody_who_watches_gets_every_look(sampler, node):
    with sampler.watching():
        first, second = await sampler.next_sample(), await sampler.next_sample()
    assert json.loads(first.node)["services"] == {"scheduler": False}
    assert json.loads(second.node)["at"] > json.loads(first.node)["at"]
    assert json.loads(second.library) is None
    assert node.num_library_looks >= 1


async def test_a_look_that_breaks_is_not_the_last(sampler, node):
    node.failures = 1
    with sampler.watching():
        while node.failures:
            await sampler.next_sample()
        assert await sampler.next_sample() is not None


async def test_ends_are_remembered_without_a_watcher(sampler, node):
    sampler.observe(ended())
    with sampler.watching():
        document = json.loads((await sampler.next_sample()).node)
    assert document["latency"]["interactive"]["first_token"]["p50"] == 0.5
    assert [*json.loads(sampler.history())][-1]["first_token_p95"] == {"interactive": 0.5}


async def test_readers_get_their_end_when_the_sampler_has_its_own(node):
    sampler = Sampler(node, NothingIsReady())
    task = asyncio.create_task(sampler.run())
    await node.looks.acquire()
    reading = asyncio.create_task(sampler.next_sample())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await sampler.next_sample() is None
    assert await reading is None
