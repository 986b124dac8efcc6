from edgelora.v1 import generation_pb2 as _generation_pb2
from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InferenceServiceGenerateRequest(_message.Message):
    __slots__ = ("ticket", "input", "options")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    input: _generation_pb2.GenerationInput
    options: _generation_pb2.GenerationOptions
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., input: _Optional[_Union[_generation_pb2.GenerationInput, _Mapping]] = ..., options: _Optional[_Union[_generation_pb2.GenerationOptions, _Mapping]] = ...) -> None: ...

class InferenceServiceGenerateResponse(_message.Message):
    __slots__ = ("started", "delta", "finished")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    started: Started
    delta: _generation_pb2.Delta
    finished: Finished
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., delta: _Optional[_Union[_generation_pb2.Delta, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "digest", "max_context_tokens", "vocab_size", "backend", "max_lora_rank", "kv_cache_dtype")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MAX_LORA_RANK_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_DTYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    max_context_tokens: int
    vocab_size: int
    backend: str
    max_lora_rank: int
    kv_cache_dtype: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., vocab_size: _Optional[int] = ..., backend: _Optional[str] = ..., max_lora_rank: _Optional[int] = ..., kv_cache_dtype: _Optional[str] = ...) -> None: ...

class GetEngineStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEngineStatusResponse(_message.Message):
    __slots__ = ("num_running", "num_waiting", "num_kv_blocks", "num_free_kv_blocks", "num_adapter_slots", "num_resident_adapters", "num_adapter_references", "num_steps", "num_output_tokens", "num_preemptions", "weights_bytes", "kv_cache_bytes", "adapter_slots_bytes", "num_cached_kv_blocks", "num_prefix_lookup_tokens", "num_prefix_hit_tokens", "max_num_seqs", "max_prefill_tokens", "num_threads")
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
    def __init__(self, num_running: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_kv_blocks: _Optional[int] = ..., num_free_kv_blocks: _Optional[int] = ..., num_adapter_slots: _Optional[int] = ..., num_resident_adapters: _Optional[int] = ..., num_adapter_references: _Optional[int] = ..., num_steps: _Optional[int] = ..., num_output_tokens: _Optional[int] = ..., num_preemptions: _Optional[int] = ..., weights_bytes: _Optional[int] = ..., kv_cache_bytes: _Optional[int] = ..., adapter_slots_bytes: _Optional[int] = ..., num_cached_kv_blocks: _Optional[int] = ..., num_prefix_lookup_tokens: _Optional[int] = ..., num_prefix_hit_tokens: _Optional[int] = ..., max_num_seqs: _Optional[int] = ..., max_prefill_tokens: _Optional[int] = ..., num_threads: _Optional[int] = ...) -> None: ...
