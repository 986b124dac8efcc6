"""What was served, told to the client: the same in every dialect."""

from __future__ import annotations

from collections.abc import Mapping

from edgelora.v1.degradation_pb2 import Degradation, DegradationStep
from edgelora.v1.gateway_service_pb2 import Accepted
from edgelora.v1.generation_pb2 import Usage
from edgelora.v1.routing_pb2 import Routing, RoutingReason


def served_headers(accepted: Accepted) -> Mapping[str, str]:
    """`x-edgelora-adapters` and, under pressure, `x-edgelora-degraded`."""
    used = [f"{adapter.digest};strength={adapter.strength:g}" for adapter in accepted.adapters]
    headers = {"x-edgelora-adapters": ", ".join(used) or "none"}
    if accepted.degradations:
        steps = [f"{_step(item)} {item.rule}" for item in accepted.degradations]
        headers["x-edgelora-degraded"] = ", ".join(steps)
    return headers


def served_document(accepted: Accepted, usage: Usage | None = None) -> dict[str, object]:
    """The field `edgelora` of an answer; the times only once they are known."""
    document: dict[str, object] = {
        "request_id": accepted.request_id,
        "adapters": [
            {
                "id": adapter.alias or adapter.digest,
                "digest": adapter.digest,
                "weight": adapter.strength,
                "version_of": adapter.version_of_digest or None,
            }
            for adapter in accepted.adapters
        ],
        "degradations": [_degradation(item) for item in accepted.degradations],
        "routing": _routing(accepted.routing) if accepted.HasField("routing") else None,
    }
    if usage is not None:
        document["times"] = {
            "queue_s": usage.queue_time.ToMicroseconds() / 1e6,
            "adapter_load_s": usage.adapter_load_time.ToMicroseconds() / 1e6,
            "time_to_first_token_s": usage.time_to_first_token.ToMicroseconds() / 1e6,
            "total_s": usage.total_time.ToMicroseconds() / 1e6,
            "engine_s": usage.engine_time.ToMicroseconds() / 1e6,
        }
    return document


def _degradation(item: Degradation) -> dict[str, object]:
    return {
        "step": _step(item),
        "rule": item.rule,
        "reading": item.reading if item.HasField("reading") else None,
        "adapter": item.adapter_alias or item.adapter_digest or None,
        "served": item.served_digest or None,
        "max_output_tokens": item.max_output_tokens or None,
        "explanation": item.explanation,
    }


def _routing(routing: Routing) -> dict[str, object]:
    return {
        "reason": RoutingReason.Name(routing.reason).removeprefix("ROUTING_REASON_").lower(),
        "base_share": routing.base_share,
        "adapters": [
            {
                "id": adapter.alias or adapter.digest,
                "digest": adapter.digest,
                "share": adapter.share,
            }
            for adapter in routing.adapters
        ],
    }


def _step(item: Degradation) -> str:
    return DegradationStep.Name(item.step).removeprefix("DEGRADATION_STEP_").lower()
