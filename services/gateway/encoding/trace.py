"""The span of one encoding, named as in `generation_trace`. No text is in it, nor any label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.tracing import Value, is_traced
from services.gateway.encoding.request import EncodingRequest
from services.gateway.encoding.run import EncodingRun
from services.gateway.request_span import BASE, request_span

_OPERATIONS = {"embed": "embeddings", "classify": "classify"}
"""The conventions have no word for classification."""


@contextmanager
def traced(run: EncodingRun, request: EncodingRequest, request_id: str) -> Iterator[None]:
    """Makes the span of a run; what the run calls goes on in it."""
    if not is_traced():
        yield
        return
    operation = _OPERATIONS[request.operation]
    with request_span(
        operation,
        lambda: run.queue_s,
        lambda: _attributes(run, request, operation, request_id),
    ):
        yield


def _attributes(
    run: EncodingRun, request: EncodingRequest, operation: str, request_id: str
) -> dict[str, Value]:
    priority = PriorityClass.Name(request.priority).removeprefix("PRIORITY_CLASS_").lower()
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "edgelora",
        "gen_ai.request.model": ",".join(run.adapter_digests) or BASE,
        "gen_ai.usage.input_tokens": run.num_tokens,
        "edgelora.request_id": request_id,
        "edgelora.priority": priority,
        "edgelora.engine_s": run.engine_s,
        "edgelora.num_texts": len(request.texts),
    }
