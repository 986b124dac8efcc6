import datetime

from edgelora.v1 import adapter_pb2 as _adapter_pb2
from edgelora.v1 import generation_pb2 as _generation_pb2
from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InferenceServiceGenerateRequest(_message.Message):
    __slots__ = ("ticket", "input", "options", "session", "strengths")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    STRENGTHS_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    input: _generation_pb2.GenerationInput
    options: _generation_pb2.GenerationOptions
    session: str
    strengths: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterStrength]
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., input: _Optional[_Union[_generation_pb2.GenerationInput, _Mapping]] = ..., options: _Optional[_Union[_generation_pb2.GenerationOptions, _Mapping]] = ..., session: _Optional[str] = ..., strengths: _Optional[_Iterable[_Union[_adapter_pb2.AdapterStrength, _Mapping]]] = ...) -> None: ...

class InferenceServiceSetStrengthRequest(_message.Message):
    __slots__ = ("claim", "request_id", "adapter", "strength")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    request_id: str
    adapter: str
    strength: float
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., request_id: _Optional[str] = ..., adapter: _Optional[str] = ..., strength: _Optional[float] = ...) -> None: ...

class InferenceServiceSetStrengthResponse(_message.Message):
    __slots__ = ("adapters",)
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterStrength]
    def __init__(self, adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterStrength, _Mapping]]] = ...) -> None: ...

class ForgetSessionsRequest(_message.Message):
    __slots__ = ("claim", "session")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    session: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., session: _Optional[str] = ...) -> None: ...

class ForgetSessionsResponse(_message.Message):
    __slots__ = ("num_forgotten",)
    NUM_FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    num_forgotten: int
    def __init__(self, num_forgotten: _Optional[int] = ...) -> None: ...

class InferenceServiceGenerateResponse(_message.Message):
    __slots__ = ("started", "delta", "finished", "engine_time")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    started: Started
    delta: _generation_pb2.Delta
    finished: Finished
    engine_time: _duration_pb2.Duration
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., delta: _Optional[_Union[_generation_pb2.Delta, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., engine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("num_prompt_tokens",)
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    num_prompt_tokens: int
    def __init__(self, num_prompt_tokens: _Optional[int] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("finish_reason", "stop_string", "usage")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _generation_pb2.FinishReason
    stop_string: str
    usage: _generation_pb2.Usage
    def __init__(self, finish_reason: _Optional[_Union[_generation_pb2.FinishReason, str]] = ..., stop_string: _Optional[str] = ..., usage: _Optional[_Union[_generation_pb2.Usage, _Mapping]] = ...) -> None: ...

class SetRunLimitsRequest(_message.Message):
    __slots__ = ("limits",)
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    limits: _ticket_pb2.Sealed
    def __init__(self, limits: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ...) -> None: ...

class SetRunLimitsResponse(_message.Message):
    __slots__ = ("max_num_seqs", "max_prefill_tokens", "num_threads")
    MAX_NUM_SEQS_FIELD_NUMBER: _ClassVar[int]
    MAX_PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_THREADS_FIELD_NUMBER: _ClassVar[int]
    max_num_seqs: int
    max_prefill_tokens: int
    num_threads: int
    def __init__(self, max_num_seqs: _Optional[int] = ..., max_prefill_tokens: _Optional[int] = ..., num_threads: _Optional[int] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("name", "digest", "max_context_tokens", "vocab_size", "backend", "max_lora_rank", "kv_cache_dtype", "family", "num_layers", "num_parameters", "weights_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MAX_LORA_RANK_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_DTYPE_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    NUM_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    max_context_tokens: int
    vocab_size: int
    backend: str
    max_lora_rank: int
    kv_cache_dtype: str
    family: str
    num_layers: int
    num_parameters: int
    weights_bytes: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., vocab_size: _Optional[int] = ..., backend: _Optional[str] = ..., max_lora_rank: _Optional[int] = ..., kv_cache_dtype: _Optional[str] = ..., family: _Optional[str] = ..., num_layers: _Optional[int] = ..., num_parameters: _Optional[int] = ..., weights_bytes: _Optional[int] = ...) -> None: ...

class GetEngineStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEngineStatusResponse(_message.Message):
    __slots__ = ("num_running", "num_waiting", "num_kv_blocks", "num_free_kv_blocks", "num_adapter_slots", "num_resident_adapters", "num_adapter_references", "num_steps", "num_output_tokens", "num_preemptions", "weights_bytes", "kv_cache_bytes", "adapter_slots_bytes", "num_cached_kv_blocks", "num_prefix_lookup_tokens", "num_prefix_hit_tokens", "max_num_seqs", "max_prefill_tokens", "num_threads", "step_time", "shares", "slots", "num_sessions", "num_session_tokens")
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NUM_FREE_KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NUM_ADAPTER_SLOTS_FIELD_NUMBER: _ClassVar[int]
    NUM_RESIDENT_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    NUM_ADAPTER_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_SLOTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUM_CACHED_KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NUM_PREFIX_LOOKUP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_PREFIX_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_SEQS_FIELD_NUMBER: _ClassVar[int]
    MAX_PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_THREADS_FIELD_NUMBER: _ClassVar[int]
    STEP_TIME_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    NUM_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_SESSION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    num_running: int
    num_waiting: int
    num_kv_blocks: int
    num_free_kv_blocks: int
    num_adapter_slots: int
    num_resident_adapters: int
    num_adapter_references: int
    num_steps: int
    num_output_tokens: int
    num_preemptions: int
    weights_bytes: int
    kv_cache_bytes: int
    adapter_slots_bytes: int
    num_cached_kv_blocks: int
    num_prefix_lookup_tokens: int
    num_prefix_hit_tokens: int
    max_num_seqs: int
    max_prefill_tokens: int
    num_threads: int
    step_time: _duration_pb2.Duration
    shares: _containers.RepeatedCompositeFieldContainer[AdapterShare]
    slots: _containers.RepeatedCompositeFieldContainer[SlotUse]
    num_sessions: int
    num_session_tokens: int
    def __init__(self, num_running: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_kv_blocks: _Optional[int] = ..., num_free_kv_blocks: _Optional[int] = ..., num_adapter_slots: _Optional[int] = ..., num_resident_adapters: _Optional[int] = ..., num_adapter_references: _Optional[int] = ..., num_steps: _Optional[int] = ..., num_output_tokens: _Optional[int] = ..., num_preemptions: _Optional[int] = ..., weights_bytes: _Optional[int] = ..., kv_cache_bytes: _Optional[int] = ..., adapter_slots_bytes: _Optional[int] = ..., num_cached_kv_blocks: _Optional[int] = ..., num_prefix_lookup_tokens: _Optional[int] = ..., num_prefix_hit_tokens: _Optional[int] = ..., max_num_seqs: _Optional[int] = ..., max_prefill_tokens: _Optional[int] = ..., num_threads: _Optional[int] = ..., step_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., shares: _Optional[_Iterable[_Union[AdapterShare, _Mapping]]] = ..., slots: _Optional[_Iterable[_Union[SlotUse, _Mapping]]] = ..., num_sessions: _Optional[int] = ..., num_session_tokens: _Optional[int] = ...) -> None: ...

class AdapterShare(_message.Message):
    __slots__ = ("digest", "step_time", "num_prompt_tokens", "num_output_tokens")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STEP_TIME_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    step_time: _duration_pb2.Duration
    num_prompt_tokens: int
    num_output_tokens: int
    def __init__(self, digest: _Optional[str] = ..., step_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., num_prompt_tokens: _Optional[int] = ..., num_output_tokens: _Optional[int] = ...) -> None: ...

class SlotUse(_message.Message):
    __slots__ = ("digest", "num_references", "size_bytes", "is_loading")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NUM_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_LOADING_FIELD_NUMBER: _ClassVar[int]
    digest: str
    num_references: int
    size_bytes: int
    is_loading: bool
    def __init__(self, digest: _Optional[str] = ..., num_references: _Optional[int] = ..., size_bytes: _Optional[int] = ..., is_loading: _Optional[bool] = ...) -> None: ...
