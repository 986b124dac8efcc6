"""The parts of a generation in its trace, drawn when it is over: the engine does nothing for it."""

from __future__ import annotations

from services.chassis.tracing import Span
from services.inference.engine.events import Completed


def add_phases(span: Span, completed: Completed) -> None:
    """Adds load, queue, prefill and decode to the span of the call, one behind the other.

    Loading and waiting may take turns; each is drawn as long as it took in all.
    """
    queued_s = completed.adapter_load_s
    seated_s = queued_s + completed.queue_s
    if completed.adapter_load_s:
        span.phase("load", 0.0, queued_s)
    span.phase("queue", queued_s, seated_s)
    span.phase(
        "prefill",
        seated_s,
        completed.first_token_s,
        {
            "gen_ai.usage.input_tokens": completed.num_prompt_tokens,
            "edgelora.cached_tokens": completed.num_cached_prompt_tokens,
        },
    )
    span.phase(
        "decode",
        completed.first_token_s,
        completed.total_s,
        {
            "gen_ai.usage.output_tokens": completed.num_output_tokens,
            "edgelora.mean_batch_size": completed.mean_batch_size,
            "edgelora.preemptions": completed.num_preemptions,
        },
    )
