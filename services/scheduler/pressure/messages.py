"""Steps and restrictions as messages, and refusals as errors."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from edgelora.errors import ResourcePressureError
from edgelora.v1.adapter_pb2 import ResolvedAdapter
from edgelora.v1.degradation_pb2 import Degradation, DegradationStep
from edgelora.v1.scheduler_service_pb2 import Restriction as RestrictionMessage
from services.scheduler.pressure.ladder import Step, StepKind
from services.scheduler.pressure.restrictions import Cause, Restriction
from services.scheduler.pressure.wording import say_cause, say_refused, say_restriction

_SHOWN_DIGEST_CHARS = len("sha256:") + 12


def restriction_message(restriction: Restriction, now_s: float) -> RestrictionMessage:
    """What GetQueues tells of a restriction."""
    cause = restriction.cause
    return RestrictionMessage(
        rule=cause.rule,
        reading=cause.reading,
        held=_held(cause, now_s),
        explanation=say_restriction(restriction, now_s),
    )


def degradation_message(step: Step, *, are_others_served: bool, now_s: float) -> Degradation:
    """What the client is told of a step. It may name the tenant's own aliases: only they see it."""
    cause, asked = step.cause, step.asked
    return Degradation(
        step=DegradationStep.Name(step.kind),
        rule=cause.rule,
        reading=cause.reading,
        held=_held(cause, now_s),
        adapter_digest=(asked.version_of_digest or asked.digest) if asked else "",
        served_digest=step.served.digest if step.served else "",
        adapter_alias=asked.alias if asked else "",
        max_output_tokens=step.max_output_tokens,
        explanation=f"{say_cause(cause, now_s)}: {_say_step(step, are_others_served)}",
    )


def log_entry(degradation: Degradation) -> dict[str, str | float | None]:
    """What the log tells of a step: digests, never a tenant's names."""
    return {
        "step": DegradationStep.Name(degradation.step).removeprefix("DEGRADATION_STEP_").lower(),
        "rule": degradation.rule,
        "reading": degradation.reading if degradation.HasField("reading") else None,
        "held_s": degradation.held.ToMilliseconds() / 1000,
        "adapter": degradation.adapter_digest or None,
    }


def class_refusal(
    restriction: Restriction, *, retry_after_s: float, now_s: float
) -> ResourcePressureError:
    """The error of a request whose class is not taken."""
    what = say_refused(restriction)
    return _refusal(restriction.cause, "refusal", what, retry_after_s=retry_after_s, now_s=now_s)


def step_refusal(step: Step, *, retry_after_s: float, now_s: float) -> ResourcePressureError:
    """The error of a request that rather ends than takes this step."""
    match step.kind:
        case StepKind.RANK_CUT:
            what = f"adapters[{step.index}] is cut to a lower rank"
        case StepKind.ADAPTER_OFF:
            what = f"adapters[{step.index}] is off"
        case StepKind.SHORTER_OUTPUT:
            what = f"answers have at most {step.max_output_tokens} tokens"
    return _refusal(
        step.cause,
        step.kind.name.lower(),
        f"{what}, and the request accepts no less",
        remedy="allow a degraded answer (degradation.is_refused, --no-degraded), or ",
        retry_after_s=retry_after_s,
        now_s=now_s,
    )


def _refusal(
    cause: Cause, step: str, what: str, *, remedy: str = "", retry_after_s: float, now_s: float
) -> ResourcePressureError:
    metadata = {
        "rule": cause.rule,
        "held_s": f"{max(0.0, now_s - cause.since_s):.1f}",
        "step": step,
    }
    if cause.reading is not None:
        metadata["reading"] = f"{cause.reading:g}"
    return ResourcePressureError(
        f"{say_cause(cause, now_s)}: {what}: {remedy}try again in {retry_after_s:g} s",
        metadata=metadata,
        retry_after_s=retry_after_s,
    )


def _say_step(step: Step, are_others_served: bool) -> str:
    if step.asked is None:
        return f"answers have at most {step.max_output_tokens} tokens"
    name = _name(step.asked)
    if step.kind is StepKind.RANK_CUT:
        return f"adapter {name} is served at rank {step.asked.rank}"
    if step.served is not None:
        instead = f"adapter {_name(step.served)} answers"
    else:
        instead = "the others answer" if are_others_served else "the base model answers"
    return f"adapter {name} of rank {step.asked.rank} is off, {instead}"


def _name(adapter: ResolvedAdapter) -> str:
    if adapter.alias:
        return f'"{adapter.alias}"'
    return (adapter.version_of_digest or adapter.digest)[:_SHOWN_DIGEST_CHARS]


def _held(cause: Cause, now_s: float) -> Duration:
    held = Duration()
    held.FromMilliseconds(round(max(0.0, now_s - cause.since_s) * 1000))
    return held
