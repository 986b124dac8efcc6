"""Who asks for much waits for its own."""

import asyncio

from services.adapter_store.fair_turns import FairTurns


class Bench:
    def __init__(self, num_places):
        self.turns = FairTurns(num_places)
        self.order = []
        self.gates = {}

    async def start(self, tenant_id, number):
        """Starts a job; returns once it runs or waits."""
        name = f"{tenant_id}{number}"
        self.gates[name] = asyncio.Event()
        task = asyncio.create_task(self._work(tenant_id, name))
        await asyncio.sleep(0)
        return task

    async def _work(self, tenant_id, name):
        async with self.turns.take(tenant_id):
            self.order.append(name)
            await self.gates[name].wait()


async def test_another_tenant_waits_for_one_of_each_before_it_T34():
    bench = Bench(1)
    tasks = [await bench.start("a", number) for number in range(3)]
    tasks += [await bench.start("b", number) for number in range(2)]
    tasks += [await bench.start("c", 0)]
    for gate in bench.gates.values():
        gate.set()
    await asyncio.gather(*tasks)
    assert bench.order == ["a0", "a1", "b0", "c0", "a2", "b1"]


async def test_no_more_run_at_once_than_there_are_places():
    bench = Bench(2)
    tasks = [await bench.start("a", number) for number in range(4)]
    assert bench.order == ["a0", "a1"]
    bench.gates["a1"].set()
    await tasks[1]
    await asyncio.sleep(0)
    assert bench.order == ["a0", "a1", "a2"]
    for gate in bench.gates.values():
        gate.set()
    await asyncio.gather(*tasks)


async def test_who_leaves_while_waiting_keeps_no_place():
    bench = Bench(1)
    first, leaving, last = [await bench.start("a", number) for number in range(3)]
    leaving.cancel()
    for name in ("a0", "a2"):
        bench.gates[name].set()
    await asyncio.gather(first, last)
    assert bench.order == ["a0", "a2"]


async def test_who_leaves_as_its_turn_comes_gives_it_back():
    turns = FairTurns(1)
    done = []

    async def waiting(name):
        async with turns.take("a"):
            done.append(name)

    async with turns.take("a"):
        leaving, last = [asyncio.create_task(waiting(name)) for name in ("leaving", "last")]
        await asyncio.sleep(0)
    leaving.cancel()  # it has been given the place, and has not run since
    await last
    assert done == ["last"]
    await waiting("next")
    assert done == ["last", "next"]
