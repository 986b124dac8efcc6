"""Turns what the engine tells into messages."""

from __future__ import annotations

from dataclasses import asdict

from google.protobuf.duration_pb2 import Duration

from edgelora.v1 import generation_pb2
from edgelora.v1 import inference_service_pb2 as pb
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.sequence import FinishReason, SampledToken
from services.inference.engine.shares import AdapterShare, busiest
from services.inference.engine.status import EngineStatus
from services.inference.engine.token_bytes import TokenBytes

_MAX_SHARES = 256
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
            queue_time=to_duration(event.queue_s),
            adapter_load_time=to_duration(event.adapter_load_s),
            time_to_first_token=to_duration(event.first_token_s),
            total_time=to_duration(event.total_s),
            mean_batch_size=event.mean_batch_size,
            num_preemptions=event.num_preemptions,
            num_cached_prompt_tokens=event.num_cached_prompt_tokens,
            engine_time=to_duration(event.engine_s),
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
        "engine_ms": round(event.engine_s * 1000, 1),
    }


def to_engine_status(status: EngineStatus) -> pb.GetEngineStatusResponse:
    """Everything the engine shows of itself."""
    return pb.GetEngineStatusResponse(
        num_running=status.num_running,
        num_waiting=status.num_waiting,
        num_kv_blocks=status.num_kv_blocks,
        num_free_kv_blocks=status.num_free_kv_blocks,
        num_adapter_slots=status.num_adapter_slots,
        num_resident_adapters=status.num_resident_adapters,
        num_adapter_references=status.num_adapter_references,
        num_steps=status.num_steps,
        num_output_tokens=status.num_output_tokens,
        num_preemptions=status.num_preemptions,
        weights_bytes=status.memory.weights_bytes,
        kv_cache_bytes=status.memory.kv_cache_bytes,
        adapter_slots_bytes=status.memory.adapter_slots_bytes,
        num_cached_kv_blocks=status.num_cached_kv_blocks,
        num_prefix_lookup_tokens=status.num_prefix_lookup_tokens,
        num_prefix_hit_tokens=status.num_prefix_hit_tokens,
        step_time=to_duration(status.step_s),
        shares=[_share(share) for share in busiest(status.shares, _MAX_SHARES)],
        slots=[
            pb.SlotUse(
                digest=slot.digest,
                num_references=slot.num_references,
                size_bytes=slot.size_bytes,
                is_loading=slot.is_loading,
            )
            for slot in status.slots
        ],
        num_sessions=status.num_sessions,
        num_session_tokens=status.num_session_tokens,
        **asdict(status.limits),
    )


def _share(share: AdapterShare) -> pb.AdapterShare:
    return pb.AdapterShare(
        digest=share.digest,
        step_time=to_duration(share.step_s),
        num_prompt_tokens=share.num_prompt_tokens,
        num_output_tokens=share.num_output_tokens,
    )


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


def to_duration(seconds: float) -> Duration:
    """Whole microseconds."""
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1_000_000))
    return duration
