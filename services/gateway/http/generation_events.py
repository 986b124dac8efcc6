"""The events of a generation, read up to its first token before anything is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from edgelora.v1 import gateway_service_pb2 as pb
from services.gateway.generation import GenerationStream
from services.gateway.http.field_names import Rename, renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedGeneration:
    """A generation that will say something."""

    accepted: pb.Accepted
    """What is served; final."""
    events: AsyncIterator[pb.GenerationEvent]
    """Deltas and tool calls, usage, done, in this order."""


async def opened(stream: GenerationStream, rename: Rename) -> OpenedGeneration:
    """Waits for the first event after the request was accepted.

    An error before it (an unknown adapter, a prompt that is too long) still has its own status.
    The caller cancels the stream. Raises what the generation raises.
    """
    accepted = pb.Accepted()
    events = _renamed(stream, rename)
    async for event in events:
        if event.WhichOneof("event") != "accepted":
            return OpenedGeneration(accepted=accepted, events=_from(event, events))
        accepted = event.accepted
    raise AssertionError("a generation ended without an event")


async def _from(
    first: pb.GenerationEvent, rest: AsyncIterator[pb.GenerationEvent]
) -> AsyncIterator[pb.GenerationEvent]:
    yield first
    async for event in rest:
        yield event


async def _renamed(stream: GenerationStream, rename: Rename) -> AsyncIterator[pb.GenerationEvent]:
    with renamed(rename):
        async for event in stream:
            yield event
