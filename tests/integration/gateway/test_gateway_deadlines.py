"""The caller's time reaches the scheduler, which refuses what it cannot answer in time."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import DeadlineExceededError
from edgelora.generation import Done

pytestmark = pytest.mark.integration


async def whole(events) -> list:
    """Every event of an answer."""
    return [event async for event in events]


async def test_an_answer_that_can_not_come_in_time_is_refused_by_the_nodes_own_pace(bench):
    """Four first tokens took 1.5 s; the fifth caller allows 1.2 s and is told so at once."""
    await bench.start()
    bench.worker.hold_after = 0
    client = await bench.client()
    answers = [asyncio.create_task(whole(client.generate("slow"))) for _ in range(4)]
    for _ in answers:
        await bench.worker.calls.get()
    await asyncio.sleep(1.5)
    bench.worker.go_on.set()
    await asyncio.gather(*answers)
    await bench.wait_until_idle()

    with pytest.raises(DeadlineExceededError, match="are allowed") as caught:
        await anext(client.generate("hasty", timeout_s=1.2))
    assert float(caught.value.metadata["expected_s"]) >= 1.5
    assert 0 < float(caught.value.metadata["allowed_s"]) < 1.5  # gRPC rounds up on the wire
    assert bench.worker.calls.empty()
    assert isinstance((await whole(client.generate("patient", timeout_s=30)))[-1], Done)
