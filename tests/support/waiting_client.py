"""A stand-in for a gateway: it queues requests, says so, and waits until it is killed.

Run as `python -m tests.support.waiting_client ADDRESS SEALED_CLAIM_HEX NUM_REQUESTS`.
"""

from __future__ import annotations

import asyncio
import sys

from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import open_channel


async def main() -> None:
    """Holds the calls open for ever."""
    address, claim_hex, num_requests = sys.argv[1:]
    request = pb.AcquireRequest(
        claim=Sealed.FromString(bytes.fromhex(claim_hex)), estimated_tokens=1, max_output_tokens=1
    )
    async with open_channel(address) as channel:
        stub = SchedulerServiceStub(channel)
        calls = [stub.Acquire(request) for _ in range(int(num_requests))]
        for call in calls:
            await call.read()
        sys.stdout.write("queued\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
