"""What a request accepts while the device is under pressure, and what was done to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from edgelora.v1 import degradation_pb2 as pb

Step = Literal["rank_cut", "adapter_off", "shorter_output", "other"]
"""A rung of the ladder; `other` is one this release does not know."""

_STEPS: Mapping[int, Step] = {
    pb.DEGRADATION_STEP_RANK_CUT: "rank_cut",
    pb.DEGRADATION_STEP_ADAPTER_OFF: "adapter_off",
    pb.DEGRADATION_STEP_SHORTER_OUTPUT: "shorter_output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationPreference:
    """What to do instead of what was asked. The default serves whatever the device allows."""

    is_refused: bool = False
    """Raise ResourcePressureError rather than serve anything else than asked."""
    fallback_adapter: str = ""
    """Alias or digest served in the place of an adapter that is off; empty: the base model."""

    def to_message(self) -> pb.DegradationPreference:
        """The wire form."""
        return pb.DegradationPreference(
            is_refused=self.is_refused, fallback_adapter=self.fallback_adapter
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """One step away from what was asked, and why. It ends by itself when the device is calm."""

    step: Step
    rule: str
    """For example temperature_elevated."""
    reading: float | None
    """Degrees Celsius, or a share 0 to 1; None when nothing can be read."""
    held_s: float
    """How long the rule has held."""
    adapter_digest: str
    """The adapter asked for; empty where the step is about none."""
    adapter_alias: str
    """Empty when the request gave the digest."""
    served_digest: str
    """Served in its place; empty: the base model."""
    max_output_tokens: int | None
    """Of a shorter output, else None."""
    explanation: str
    """One sentence."""


def from_messages(messages: Iterable[pb.Degradation]) -> tuple[Degradation, ...]:
    """The typed form."""
    return tuple(
        Degradation(
            step=_STEPS.get(message.step, "other"),
            rule=message.rule,
            reading=message.reading if message.HasField("reading") else None,
            held_s=message.held.ToNanoseconds() / 1e9,
            adapter_digest=message.adapter_digest,
            adapter_alias=message.adapter_alias,
            served_digest=message.served_digest,
            max_output_tokens=message.max_output_tokens or None,
            explanation=message.explanation,
        )
        for message in messages
    )
