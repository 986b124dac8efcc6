"""Mutated messages over every RPC of the tenants' door; see test_fuzz_http for how many."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import grpc
import pytest

from edgelora.v1 import gateway_service_pb2 as pb
from tests.fuzz_doors.test_fuzz_http import COUNT, SEED, WARM_UP
from tests.support.door_seeds import CANARY, MESSAGES
from tests.support.fuzzed_doors import spread
from tests.support.proto_mutations import mutated_message

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

SERVICE = pb.DESCRIPTOR.services_by_name["GatewayService"]
METHODS = [
    (method.name, method.client_streaming, method.server_streaming) for method in SERVICE.methods
]
NUM_CHANNELS = 4
CALL_S = 30.0
REFUSED = {
    "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
}  # fmt: skip
"""Never INTERNAL or UNKNOWN; and nothing here is missing or late."""


async def _each(messages: Sequence[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def outcome(channel: grpc.aio.Channel, index: int, metadata: object) -> str:
    """Makes one call with mutated messages and tells how it ended."""
    chance = random.Random(f"{SEED} {index} method")
    name, sends_many, gets_many = chance.choice(METHODS)
    seeds = [message.SerializeToString() for message in MESSAGES[name]]
    path = f"/{SERVICE.full_name}/{name}"
    options = {"timeout": CALL_S, "metadata": metadata}
    try:
        if sends_many:
            # The right messages in their order, some of them mutated.
            messages = [
                mutated_message(seeds, SEED, index) if chance.random() < 0.4 else message
                for message in seeds
            ]
            await channel.stream_unary(path)(_each(messages), **options)
        elif gets_many:
            call = channel.unary_stream(path)(mutated_message(seeds, SEED, index), **options)
            async for _ in call:
                pass
        else:
            await channel.unary_unary(path)(mutated_message(seeds, SEED, index), **options)
    except grpc.aio.AioRpcError as error:
        assert error.code().name in REFUSED, (index, name, error.code(), error.details())
        assert CANARY not in (error.details() or ""), (index, name)
        return error.code().name
    return "OK"


def test_every_rpc_has_right_messages():
    assert {name for name, _, _ in METHODS} == set(MESSAGES)


async def test_no_message_over_grpc_harms_the_gateway(doors):
    outcomes: Counter[str] = Counter()
    before = await doors.gateway.holding()

    async def send_all(count: int, first: int) -> None:
        channels = [doors.channel() for _ in range(NUM_CHANNELS)]

        async def send(worker: int, index: int) -> None:
            channel = channels[worker % NUM_CHANNELS]
            outcomes[await outcome(channel, first + index, doors.authorization)] += 1

        await spread(count, 2 * NUM_CHANNELS, send)
        await asyncio.gather(*(channel.close() for channel in channels))

    await send_all(WARM_UP, COUNT)
    before = await doors.check(before)
    outcomes.clear()
    await send_all(COUNT, 0)
    after = await doors.check(before)
    assert outcomes["OK"] > COUNT / 50
    assert outcomes["INVALID_ARGUMENT"] > COUNT / 10
    sys.stdout.write(f"\n{COUNT} messages: {dict(outcomes)}; before {before}, after {after}\n")
