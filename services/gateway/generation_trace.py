"""The span of one generation, by OpenTelemetry's conventions for generative AI (in development).

https://opentelemetry.io/docs/specs/semconv/gen-ai: the model of a request is its adapter, here by
digest. Neither the prompt nor the answer, nor the name a tenant gave its adapter, is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.tracing import Value, is_traced
from services.gateway.generation_run import GenerationRequest, GenerationRun
from services.gateway.request_span import BASE, request_span


@contextmanager
def traced(run: GenerationRun, request: GenerationRequest, request_id: str) -> Iterator[None]:
    """Makes the span of a run; what the run calls goes on in it."""
    if not is_traced():
        yield
        return
    is_chat = request.input.WhichOneof("input") == "conversation"
    operation = "chat" if is_chat else "text_completion"
    with request_span(
        operation,
        lambda: run.queue_s,
        lambda: _attributes(run, request, operation, request_id),
    ):
        yield


def _attributes(
    run: GenerationRun, request: GenerationRequest, operation: str, request_id: str
) -> dict[str, Value]:
    priority = PriorityClass.Name(request.priority).removeprefix("PRIORITY_CLASS_").lower()
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "edgelora",
        "gen_ai.request.model": ",".join(run.adapter_digests) or BASE,
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "gen_ai.usage.input_tokens": run.num_prompt_tokens,
        "gen_ai.usage.output_tokens": run.num_output_tokens,
        "edgelora.request_id": request_id,
        "edgelora.priority": priority,
        "edgelora.engine_s": run.engine_s,
    }
    if run.degradations:
        attributes["edgelora.degradations"] = run.degradations
    if run.time_to_first_token_s is not None:
        attributes["edgelora.time_to_first_token_s"] = run.time_to_first_token_s
    return attributes
