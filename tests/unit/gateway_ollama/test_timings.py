"""Durations of an answer, in nanoseconds."""

from google.protobuf.duration_pb2 import Duration

from edgelora.v1.generation_pb2 import Usage
from services.gateway.http.ollama.timings import timings


def seconds(value: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(value * 1000))
    return duration


def test_the_parts_are_what_happened_one_after_the_other():
    usage = Usage(
        num_prompt_tokens=7,
        num_output_tokens=3,
        queue_time=seconds(1),
        adapter_load_time=seconds(2),
        time_to_first_token=seconds(3.5),
        total_time=seconds(5),
    )
    assert timings(usage) == {
        "total_duration": 5_000_000_000,
        "load_duration": 2_000_000_000,
        "prompt_eval_count": 7,
        "prompt_eval_duration": 500_000_000,
        "eval_count": 3,
        "eval_duration": 1_500_000_000,
    }


def test_without_a_token_all_the_time_went_into_the_prompt():
    numbers = timings(Usage(num_prompt_tokens=7, queue_time=seconds(1), total_time=seconds(3)))
    assert (numbers["prompt_eval_duration"], numbers["eval_duration"]) == (2_000_000_000, 0)
