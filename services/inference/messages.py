"""Turns the engine's events into messages."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from edgelora.v1 import generation_pb2
from edgelora.v1 import inference_service_pb2 as pb
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.sequence import FinishReason, SampledToken
from services.inference.engine.token_bytes import TokenBytes

_REASONS = {
    FinishReason.STOP: generation_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: generation_pb2.FINISH_REASON_LENGTH,
}


def to_delta(event: TextDelta, token_bytes: TokenBytes) -> generation_pb2.Delta:
    """A delta with its tokens."""
    return generation_pb2.Delta(
        text=event.text,
        token_ids=[token.token_id for token in event.tokens],
        logprobs=[
            _logprob(token, token_bytes) for token in event.tokens if token.logprob is not None
        ],
    )


def to_finished(event: Completed) -> pb.Finished:
    """The end with its usage."""
    return pb.Finished(
        finish_reason=_REASONS[event.finish_reason],
        stop_string=event.stop_string,
        usage=generation_pb2.Usage(
            num_prompt_tokens=event.num_prompt_tokens,
            num_output_tokens=event.num_output_tokens,
            queue_time=_duration(event.queue_s),
            adapter_load_time=_duration(event.adapter_load_s),
            time_to_first_token=_duration(event.first_token_s),
            total_time=_duration(event.total_s),
            mean_batch_size=event.mean_batch_size,
            num_preemptions=event.num_preemptions,
            num_cached_prompt_tokens=event.num_cached_prompt_tokens,
        ),
    )


def to_timings(event: Completed) -> dict[str, float]:
    """The times for the log line of the call."""
    return {
        "engine_queue_ms": round(event.queue_s * 1000, 1),
        "adapter_load_ms": round(event.adapter_load_s * 1000, 1),
        "first_token_ms": round(event.first_token_s * 1000, 1),
        "mean_batch_size": round(event.mean_batch_size, 2),
        "num_preemptions": event.num_preemptions,
        "num_cached_prompt_tokens": event.num_cached_prompt_tokens,
    }


def _logprob(token: SampledToken, token_bytes: TokenBytes) -> generation_pb2.TokenLogprob:
    assert token.logprob is not None
    return generation_pb2.TokenLogprob(
        token_id=token.token_id,
        logprob=token.logprob.logprob,
        token=token_bytes[token.token_id],
        top=[
            generation_pb2.TopLogprob(
                token_id=token_id, logprob=logprob, token=token_bytes[token_id]
            )
            for token_id, logprob in token.logprob.top
        ],
    )


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1_000_000))
    return duration
