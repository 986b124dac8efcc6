"""The events of a generation, read up to its first token before anything is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import TokenLogprob, ToolCall, Usage
from services.gateway.generation import GenerationStream
from services.gateway.http.field_names import Rename, renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedGeneration:
    """A generation that will say something."""

    accepted: pb.Accepted
    """What is served; final."""
    events: AsyncIterator[pb.GenerationEvent]
    """Deltas and tool calls, usage, done, in this order."""


@dataclass(slots=True, kw_only=True)
class WholeGeneration:
    """Everything a generation said."""

    accepted: pb.Accepted
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    done: pb.Done = field(default_factory=pb.Done)


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


async def whole(opening: OpenedGeneration) -> WholeGeneration:
    """Reads to the end. Raises what the generation raises: a part of an answer is none."""
    texts: list[str] = []
    found = WholeGeneration(accepted=opening.accepted)
    async for event in opening.events:
        match event.WhichOneof("event"):
            case "delta":
                texts.append(event.delta.text)
                found.logprobs.extend(event.delta.logprobs)
            case "tool_call":
                found.tool_calls.append(event.tool_call)
            case "usage":
                found.usage = event.usage
            case "done":
                found.done = event.done
    found.text = "".join(texts)
    return found


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
