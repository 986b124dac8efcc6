"""What a generation takes and gives, as plain typed values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgelora import degradation, routed
from edgelora.degradation import Degradation
from edgelora.routed import Routing
from edgelora.tools import ToolCall, from_tool_call
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import Constraint, PriorityClass
from edgelora.v1.generation_pb2 import FinishReason as FinishReasonMessage
from edgelora.v1.generation_pb2 import GenerationOptions as OptionsMessage
from edgelora.v1.generation_pb2 import Usage as UsageMessage

Adapters = str | Iterable[str] | Mapping[str, float]
"""One adapter, several, or several with their strengths (0 to 2): aliases or digests.

`"auto"` alone leaves the choice to the node's router.
"""
Priority = Literal["interactive", "background", "batch"]
FinishReason = Literal["stop", "length", "tool_calls"]

_PRIORITIES: Mapping[Priority, PriorityClass] = {
    "interactive": PriorityClass.PRIORITY_CLASS_INTERACTIVE,
    "background": PriorityClass.PRIORITY_CLASS_BACKGROUND,
    "batch": PriorityClass.PRIORITY_CLASS_BATCH,
}
_FINISH_REASONS: Mapping[int, FinishReason] = {
    FinishReasonMessage.FINISH_REASON_STOP: "stop",
    FinishReasonMessage.FINISH_REASON_LENGTH: "length",
    FinishReasonMessage.FINISH_REASON_TOOL_CALLS: "tool_calls",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """How to generate. None takes the server's default, stated in generation.proto."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop_strings: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    """Report each token's log probability and that of this many likeliest ones, 0 to 20."""
    json_object: bool = False
    """The output is some JSON object. Of this and what follows one at most."""
    json_schema: str | Mapping[str, Any] | None = None
    """The output satisfies this schema."""
    regex: str | None = None
    """The output matches this, from its first to its last character; only for trusted tenants."""
    lark: str | None = None
    """The output is of this grammar; only for trusted tenants."""

    def to_message(self) -> OptionsMessage:
        """The wire form. Raises ValueError for a number the wire can not carry, and for more than
        one constraint."""
        message = OptionsMessage(constraint=self._constraint())
        for name in (
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "seed",
        ):
            value = getattr(self, name)
            if value is not None:
                setattr(message.sampling, name, value)
        if self.max_tokens is not None:
            message.stop.max_tokens = self.max_tokens
        message.stop.stop_strings.extend(self.stop_strings)
        message.stop.stop_token_ids.extend(self.stop_token_ids)
        message.stop.ignore_eos = self.ignore_eos
        if self.logprobs is not None:
            message.logprobs = self.logprobs
        return message

    def _constraint(self) -> Constraint | None:
        schema = self.json_schema
        if schema is not None and not isinstance(schema, str):
            schema = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        given: dict[str, Any] = {
            "json_object": self.json_object or None,
            "json_schema": schema,
            "regex": self.regex,
            "lark": self.lark,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"give one of {', '.join(given)}")
        return Constraint(**given) if given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedAdapter:
    """An adapter the request will use."""

    digest: str
    alias: str
    """Empty when the request gave the digest."""
    strength: float
    generation: int
    """How often the alias was pointed anew; 0 when the request gave the digest."""
    certificate_digest: str
    """Of what was proven about the adapter when it was registered."""
    source: str
    """Where it came from: `upload`, or its remote, package and manifest digest."""
    parent_digest: str
    """What its alias pointed to before it; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The first event: the request is queued.

    It comes once more, before the first Delta, when the device got worse while the request waited;
    the last one says what is served.
    """

    request_id: str
    queue_position: int
    """Requests ahead of this one; 0 means next."""
    adapters: tuple[UsedAdapter, ...]
    degradations: tuple[Degradation, ...] = ()
    """What is served otherwise than asked, and why; empty while the device is calm."""
    routing: Routing | None = None
    """What the router chose, where the request asked for `auto`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """Natural-log probability of a chosen token, and of the likeliest ones."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """(token id, logprob), best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of the output. Joined texts are the whole output."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the generation took. Times are seconds from acceptance, None where unknown."""

    num_prompt_tokens: int
    num_output_tokens: int
    queue_s: float | None
    adapter_load_s: float | None
    time_to_first_token_s: float | None
    total_s: float | None
    mean_batch_size: float
    num_preemptions: int
    num_cached_prompt_tokens: int
    """Prompt tokens that an earlier request of the tenant had left computed."""
    engine_s: float | None
    """The request's share of the time the engine's steps took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The last event of a complete answer. A stream that was cut raises instead."""

    finish_reason: FinishReason
    stop_string: str | None


GenerationEvent = Accepted | Delta | ToolCall | Usage | Done


def to_selections(adapters: Adapters) -> list[AdapterSelection]:
    """The wire form of a choice of adapters."""
    if isinstance(adapters, str):
        return [AdapterSelection(adapter=adapters)]
    if isinstance(adapters, Mapping):
        return [
            AdapterSelection(adapter=name, strength=strength) for name, strength in adapters.items()
        ]
    return [AdapterSelection(adapter=name) for name in adapters]


def to_priority(priority: Priority) -> PriorityClass:
    """The wire form of a priority. Raises ValueError for one there is not."""
    if priority not in _PRIORITIES:
        raise ValueError(f"priority has to be one of {', '.join(_PRIORITIES)}")
    return _PRIORITIES[priority]


def from_event(event: pb.GenerationEvent) -> GenerationEvent | None:
    """The typed form of an event, None for a kind this release does not know."""
    match event.WhichOneof("event"):
        case "accepted":
            return _accepted(event.accepted)
        case "delta":
            return _delta(event)
        case "tool_call":
            return from_tool_call(event.tool_call)
        case "usage":
            return _usage(event.usage)
        case "done":
            return Done(
                finish_reason=_FINISH_REASONS.get(event.done.finish_reason, "stop"),
                stop_string=event.done.stop_string if event.done.HasField("stop_string") else None,
            )
    return None


def _accepted(accepted: pb.Accepted) -> Accepted:
    return Accepted(
        request_id=accepted.request_id,
        queue_position=accepted.queue_position,
        adapters=tuple(
            UsedAdapter(
                digest=entry.digest,
                alias=entry.alias,
                strength=entry.strength,
                generation=entry.generation,
                certificate_digest=entry.certificate_digest,
                source=entry.lineage.source,
                parent_digest=entry.lineage.parent_digest,
            )
            for entry in accepted.adapters
        ),
        degradations=degradation.from_messages(accepted.degradations),
        routing=routed.from_message(accepted.routing) if accepted.HasField("routing") else None,
    )


def _delta(event: pb.GenerationEvent) -> Delta:
    return Delta(
        text=event.delta.text,
        token_ids=tuple(event.delta.token_ids),
        logprobs=tuple(
            TokenLogprob(
                token_id=entry.token_id,
                logprob=entry.logprob,
                top=tuple((top.token_id, top.logprob) for top in entry.top),
            )
            for entry in event.delta.logprobs
        ),
    )


def _usage(usage: UsageMessage) -> Usage:
    def seconds(name: str) -> float | None:
        if not usage.HasField(name):
            return None
        value: float = getattr(usage, name).ToNanoseconds() / 1e9
        return value

    return Usage(
        num_prompt_tokens=usage.num_prompt_tokens,
        num_output_tokens=usage.num_output_tokens,
        queue_s=seconds("queue_time"),
        adapter_load_s=seconds("adapter_load_time"),
        time_to_first_token_s=seconds("time_to_first_token"),
        total_s=seconds("total_time"),
        mean_batch_size=usage.mean_batch_size,
        num_preemptions=usage.num_preemptions,
        num_cached_prompt_tokens=usage.num_cached_prompt_tokens,
        engine_s=seconds("engine_time"),
    )
