"""From checked wire options and a ticket to what the engine takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from edgelora.errors import InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterStrength, ResolvedAdapter
from edgelora.v1.generation_pb2 import GenerationOptions, PriorityClass, ToolUse
from edgelora.v1.generation_pb2 import SamplingParams as SamplingParamsMessage
from edgelora.v1.generation_pb2 import StopConditions as StopConditionsMessage
from services.chassis.generation_limits import (
    DEFAULT_MAX_TOKENS,
    check_options,
    check_tool_use,
)
from services.inference.engine.sequence import (
    AdapterUse,
    Priority,
    SamplingParams,
    StopConditions,
)

MAX_STRENGTH = 2.0

_PRIORITIES = {
    PriorityClass.PRIORITY_CLASS_UNSPECIFIED: Priority.INTERACTIVE,
    PriorityClass.PRIORITY_CLASS_INTERACTIVE: Priority.INTERACTIVE,
    PriorityClass.PRIORITY_CLASS_BACKGROUND: Priority.BACKGROUND,
    PriorityClass.PRIORITY_CLASS_BATCH: Priority.BATCH,
}


def check_generation(options: GenerationOptions, tools: ToolUse, vocab_size: int) -> None:
    """Checks every option, the model's vocabulary included, and the tools that go with them.

    Raises InvalidRequestError.
    """
    check_options(options)
    check_tool_use(tools, options)
    for index, token_id in enumerate(options.stop.stop_token_ids):
        if token_id >= vocab_size:
            field = f"options.stop.stop_token_ids[{index}]"
            raise InvalidRequestError(f"{field} must be below {vocab_size}", field=field)


def to_sampling(message: SamplingParamsMessage) -> SamplingParams:
    """Absent fields take the defaults of SamplingParams."""
    return SamplingParams(**{field.name: value for field, value in message.ListFields()})


def to_stop(message: StopConditionsMessage, *, room: int, ticket_limit: int) -> StopConditions:
    """`room`: tokens the prompt leaves in the context. `ticket_limit`: 0 is no limit."""
    max_tokens = message.max_tokens if message.HasField("max_tokens") else DEFAULT_MAX_TOKENS
    return StopConditions(
        max_tokens=min(max_tokens, room, ticket_limit or room),
        stop_strings=tuple(message.stop_strings),
        stop_token_ids=frozenset(message.stop_token_ids),
        ignore_eos=message.ignore_eos,
    )


def check_strength(strength: float, field: str) -> None:
    """Raises InvalidRequestError for what is not a number from 0 to MAX_STRENGTH."""
    if not 0.0 <= strength <= MAX_STRENGTH:
        raise InvalidRequestError(f"{field} must be 0 to {MAX_STRENGTH:g}", field=field)


def to_priority(value: int) -> Priority:
    """Unspecified is interactive. Raises InvalidRequestError for an unknown class."""
    for known, priority in _PRIORITIES.items():
        if value == known:
            return priority
    raise InvalidRequestError("priority is not a known class", field="priority")


def to_adapters(
    resolved: Iterable[ResolvedAdapter],
    max_loras: int,
    changed: Iterable[AdapterStrength] = (),
) -> tuple[AdapterUse, ...]:
    """Adapters to be loaded. Strengths of the same digest add up; one asked for at 0 is not used.

    `changed` are strengths set since the ticket was asked for, of adapters that are in it; one that
    is 0 by then may rise again. Raises InvalidRequestError for a strength out of range, for a
    change of another adapter, and for more adapters than there are slots.
    """
    weights: dict[str, float] = {}
    for index, adapter in enumerate(resolved):
        check_strength(adapter.strength, f"adapters[{index}].strength")
        weights[adapter.digest] = weights.get(adapter.digest, 0.0) + adapter.strength
    changes: dict[str, float] = {}
    for index, change in enumerate(changed):
        check_strength(change.strength, f"strengths[{index}].strength")
        if change.digest not in weights:
            field = f"strengths[{index}].digest"
            raise InvalidRequestError(f"{field} must be an adapter of the ticket", field=field)
        changes[change.digest] = change.strength
    weights = {digest: weight for digest, weight in weights.items() if weight} | changes
    if len(weights) > max_loras:
        raise InvalidRequestError(
            f"adapters: this worker can combine at most {max_loras}", field="adapters"
        )
    return tuple(AdapterUse(digest, weight) for digest, weight in weights.items())
