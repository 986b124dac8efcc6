"""The numbers at the end of an answer, all measured; durations are whole nanoseconds."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from edgelora.v1.generation_pb2 import Usage


def timings(usage: Usage) -> dict[str, int]:
    """Counts and durations of a generation.

    `prompt_eval_duration` runs from the end of waiting and loading to the first token,
    `eval_duration` from there to the last one.
    """
    total = _ns(usage.total_time)
    load = _ns(usage.adapter_load_time)
    first = _ns(usage.time_to_first_token) if usage.num_output_tokens else total
    return {
        "total_duration": total,
        "load_duration": load,
        "prompt_eval_count": usage.num_prompt_tokens,
        "prompt_eval_duration": max(0, first - _ns(usage.queue_time) - load),
        "eval_count": usage.num_output_tokens,
        "eval_duration": max(0, total - first),
    }


def _ns(duration: Duration) -> int:
    return duration.ToNanoseconds()
