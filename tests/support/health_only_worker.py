"""A stand-in for a worker of either task that has health and nothing else. It runs no model.

Run as `python -m tests.support.health_only_worker ADDRESS`.
"""

from __future__ import annotations

import asyncio
import sys

from edgelora.v1.encoder_service_pb2_grpc import (
    EncoderServiceServicer,
    add_EncoderServiceServicer_to_server,
)
from edgelora.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from services.chassis.server import ServiceHost


def make_worker(address: str) -> ServiceHost:
    """A host that serves the health of an InferenceService."""
    host = ServiceHost([address])
    host.add(
        add_InferenceServiceServicer_to_server,
        InferenceServiceServicer(),
        "edgelora.v1.InferenceService",
    )
    return host


def make_encoder_worker(address: str) -> ServiceHost:
    """A host that serves the health of an EncoderService."""
    host = ServiceHost([address])
    host.add(
        add_EncoderServiceServicer_to_server,
        EncoderServiceServicer(),
        "edgelora.v1.EncoderService",
    )
    return host


async def main() -> None:
    """Serves until told to stop."""
    host = make_worker(sys.argv[1])
    async with host.serving():
        await host.set_ready(True)
        await host.wait_for_stop()


if __name__ == "__main__":
    asyncio.run(main())
