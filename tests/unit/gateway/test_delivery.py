"""The line between the maker of events and their reader."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import CancelledRequestError, WorkerLostError
from edgelora.v1.gateway_service_pb2 import GenerationEvent
from edgelora.v1.generation_pb2 import Delta
from services.gateway.delivery import Delivery


def event(index: int) -> GenerationEvent:
    return GenerationEvent(delta=Delta(text=str(index)))


async def read(delivery: Delivery) -> list[str]:
    return [received.delta.text async for received in delivery]


async def test_every_event_arrives_in_order_however_slow_either_side_is():
    delivery = Delivery(stall_s=60)

    async def make():
        for index in range(500):
            await delivery.put(event(index))
            if index % 7 == 0:
                await asyncio.sleep(0)
        delivery.close(None)

    maker = asyncio.create_task(make())
    texts = []
    async for received in delivery:
        texts.append(received.delta.text)
        if len(texts) % 5 == 0:
            await asyncio.sleep(0)
    await maker
    assert texts == [str(index) for index in range(500)]


async def test_an_error_comes_after_the_events_before_it():
    delivery = Delivery(stall_s=60)
    await delivery.put(event(0))
    delivery.close(WorkerLostError("gone"))
    received = []
    with pytest.raises(WorkerLostError):
        async for entry in delivery:
            received.append(entry)
    assert len(received) == 1


async def test_closing_wakes_a_waiting_reader():
    delivery = Delivery(stall_s=60)
    reader = asyncio.create_task(read(delivery))
    await asyncio.sleep(0)
    delivery.close(None)
    assert await reader == []


async def test_a_reader_that_never_reads_stops_the_maker_at_64_events_F23():
    delivery = Delivery(stall_s=0.01)
    num_put = 0
    with pytest.raises(CancelledRequestError, match="read nothing"):
        while True:
            await delivery.put(event(num_put))
            num_put += 1
    assert num_put == 64
