import datetime

from edgelora.v1 import adapter_pb2 as _adapter_pb2
from edgelora.v1 import degradation_pb2 as _degradation_pb2
from edgelora.v1 import encoding_pb2 as _encoding_pb2
from edgelora.v1 import generation_pb2 as _generation_pb2
from edgelora.v1 import monitor_service_pb2 as _monitor_service_pb2
from edgelora.v1 import routing_pb2 as _routing_pb2
from edgelora.v1 import scheduler_service_pb2 as _scheduler_service_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GenerateRequest(_message.Message):
    __slots__ = ("prompt", "adapters", "options", "priority", "user", "degradation", "session")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DEGRADATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    prompt: str
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterSelection]
    options: _generation_pb2.GenerationOptions
    priority: _generation_pb2.PriorityClass
    user: str
    degradation: _degradation_pb2.DegradationPreference
    session: str
    def __init__(self, prompt: _Optional[str] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterSelection, _Mapping]]] = ..., options: _Optional[_Union[_generation_pb2.GenerationOptions, _Mapping]] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., user: _Optional[str] = ..., degradation: _Optional[_Union[_degradation_pb2.DegradationPreference, _Mapping]] = ..., session: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: GenerationEvent
    def __init__(self, event: _Optional[_Union[GenerationEvent, _Mapping]] = ...) -> None: ...

class ChatRequest(_message.Message):
    __slots__ = ("messages", "adapters", "options", "priority", "user", "degradation", "session", "tools")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DEGRADATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_generation_pb2.ChatMessage]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterSelection]
    options: _generation_pb2.GenerationOptions
    priority: _generation_pb2.PriorityClass
    user: str
    degradation: _degradation_pb2.DegradationPreference
    session: str
    tools: _generation_pb2.ToolUse
    def __init__(self, messages: _Optional[_Iterable[_Union[_generation_pb2.ChatMessage, _Mapping]]] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterSelection, _Mapping]]] = ..., options: _Optional[_Union[_generation_pb2.GenerationOptions, _Mapping]] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., user: _Optional[str] = ..., degradation: _Optional[_Union[_degradation_pb2.DegradationPreference, _Mapping]] = ..., session: _Optional[str] = ..., tools: _Optional[_Union[_generation_pb2.ToolUse, _Mapping]] = ...) -> None: ...

class ChatResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: GenerationEvent
    def __init__(self, event: _Optional[_Union[GenerationEvent, _Mapping]] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ("texts", "adapter", "top_labels", "priority", "user")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TOP_LABELS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    adapter: _adapter_pb2.AdapterSelection
    top_labels: int
    priority: _generation_pb2.PriorityClass
    user: str
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., adapter: _Optional[_Union[_adapter_pb2.AdapterSelection, _Mapping]] = ..., top_labels: _Optional[int] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., user: _Optional[str] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ("classifications", "request_id", "adapter", "usage")
    CLASSIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    classifications: _containers.RepeatedCompositeFieldContainer[_encoding_pb2.Classification]
    request_id: str
    adapter: _adapter_pb2.ResolvedAdapter
    usage: _encoding_pb2.EncodingUsage
    def __init__(self, classifications: _Optional[_Iterable[_Union[_encoding_pb2.Classification, _Mapping]]] = ..., request_id: _Optional[str] = ..., adapter: _Optional[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]] = ..., usage: _Optional[_Union[_encoding_pb2.EncodingUsage, _Mapping]] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("texts", "adapter", "priority", "user")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    adapter: _adapter_pb2.AdapterSelection
    priority: _generation_pb2.PriorityClass
    user: str
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., adapter: _Optional[_Union[_adapter_pb2.AdapterSelection, _Mapping]] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., user: _Optional[str] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("embeddings", "request_id", "adapter", "usage", "model")
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    embeddings: _containers.RepeatedCompositeFieldContainer[_encoding_pb2.Embedding]
    request_id: str
    adapter: _adapter_pb2.ResolvedAdapter
    usage: _encoding_pb2.EncodingUsage
    model: str
    def __init__(self, embeddings: _Optional[_Iterable[_Union[_encoding_pb2.Embedding, _Mapping]]] = ..., request_id: _Optional[str] = ..., adapter: _Optional[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]] = ..., usage: _Optional[_Union[_encoding_pb2.EncodingUsage, _Mapping]] = ..., model: _Optional[str] = ...) -> None: ...

class GenerationEvent(_message.Message):
    __slots__ = ("accepted", "delta", "usage", "done", "tool_call")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    accepted: Accepted
    delta: _generation_pb2.Delta
    usage: _generation_pb2.Usage
    done: Done
    tool_call: _generation_pb2.ToolCall
    def __init__(self, accepted: _Optional[_Union[Accepted, _Mapping]] = ..., delta: _Optional[_Union[_generation_pb2.Delta, _Mapping]] = ..., usage: _Optional[_Union[_generation_pb2.Usage, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., tool_call: _Optional[_Union[_generation_pb2.ToolCall, _Mapping]] = ...) -> None: ...

class SetStrengthRequest(_message.Message):
    __slots__ = ("request_id", "adapter", "strength")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    adapter: str
    strength: float
    def __init__(self, request_id: _Optional[str] = ..., adapter: _Optional[str] = ..., strength: _Optional[float] = ...) -> None: ...

class SetStrengthResponse(_message.Message):
    __slots__ = ("adapters",)
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterStrength]
    def __init__(self, adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterStrength, _Mapping]]] = ...) -> None: ...

class ForgetSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class ForgetSessionResponse(_message.Message):
    __slots__ = ("num_forgotten",)
    NUM_FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    num_forgotten: int
    def __init__(self, num_forgotten: _Optional[int] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("request_id", "queue_position", "adapters", "degradations", "routing")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    DEGRADATIONS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    queue_position: int
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.ResolvedAdapter]
    degradations: _containers.RepeatedCompositeFieldContainer[_degradation_pb2.Degradation]
    routing: _routing_pb2.Routing
    def __init__(self, request_id: _Optional[str] = ..., queue_position: _Optional[int] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]]] = ..., degradations: _Optional[_Iterable[_Union[_degradation_pb2.Degradation, _Mapping]]] = ..., routing: _Optional[_Union[_routing_pb2.Routing, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("finish_reason", "stop_string")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _generation_pb2.FinishReason
    stop_string: str
    def __init__(self, finish_reason: _Optional[_Union[_generation_pb2.FinishReason, str]] = ..., stop_string: _Optional[str] = ...) -> None: ...

class ListAdaptersRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAdaptersResponse(_message.Message):
    __slots__ = ("adapters", "aliases", "next_page_token")
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.Adapter]
    aliases: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterAlias]
    next_page_token: str
    def __init__(self, adapters: _Optional[_Iterable[_Union[_adapter_pb2.Adapter, _Mapping]]] = ..., aliases: _Optional[_Iterable[_Union[_adapter_pb2.AdapterAlias, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetAdapterRequest(_message.Message):
    __slots__ = ("adapter",)
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    def __init__(self, adapter: _Optional[str] = ...) -> None: ...

class GetAdapterResponse(_message.Message):
    __slots__ = ("adapter", "aliases")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    aliases: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterAlias]
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ..., aliases: _Optional[_Iterable[_Union[_adapter_pb2.AdapterAlias, _Mapping]]] = ...) -> None: ...

class InstallAdapterRequest(_message.Message):
    __slots__ = ("package", "alias", "description", "replace_alias", "expected_generation")
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALIAS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    package: str
    alias: str
    description: str
    replace_alias: bool
    expected_generation: int
    def __init__(self, package: _Optional[str] = ..., alias: _Optional[str] = ..., description: _Optional[str] = ..., replace_alias: _Optional[bool] = ..., expected_generation: _Optional[int] = ...) -> None: ...

class InstallAdapterResponse(_message.Message):
    __slots__ = ("progress", "registered")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    progress: _adapter_pb2.TransferProgress
    registered: RegisterAdapterResponse
    def __init__(self, progress: _Optional[_Union[_adapter_pb2.TransferProgress, _Mapping]] = ..., registered: _Optional[_Union[RegisterAdapterResponse, _Mapping]] = ...) -> None: ...

class PinAdapterRequest(_message.Message):
    __slots__ = ("adapter", "is_pinned")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    IS_PINNED_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    is_pinned: bool
    def __init__(self, adapter: _Optional[str] = ..., is_pinned: _Optional[bool] = ...) -> None: ...

class PinAdapterResponse(_message.Message):
    __slots__ = ("adapter",)
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ...) -> None: ...

class SetWarmUpRequest(_message.Message):
    __slots__ = ("is_enabled", "forget")
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    is_enabled: bool
    forget: bool
    def __init__(self, is_enabled: _Optional[bool] = ..., forget: _Optional[bool] = ...) -> None: ...

class SetWarmUpResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _adapter_pb2.WarmUpState
    def __init__(self, state: _Optional[_Union[_adapter_pb2.WarmUpState, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("model", "model_digest", "max_context_tokens", "services", "device", "queues", "usage", "backend", "kv_cache_dtype", "tiers", "restrictions", "pressure", "encoder", "encoder_digest")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_DTYPE_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    RESTRICTIONS_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    ENCODER_FIELD_NUMBER: _ClassVar[int]
    ENCODER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    model: str
    model_digest: str
    max_context_tokens: int
    services: _containers.RepeatedCompositeFieldContainer[ServiceStatus]
    device: _monitor_service_pb2.DeviceSnapshot
    queues: _containers.RepeatedCompositeFieldContainer[_scheduler_service_pb2.QueueStatus]
    usage: TenantUsage
    backend: str
    kv_cache_dtype: str
    tiers: _adapter_pb2.TierStatistics
    restrictions: _containers.RepeatedCompositeFieldContainer[_scheduler_service_pb2.Restriction]
    pressure: _monitor_service_pb2.DevicePressure
    encoder: str
    encoder_digest: str
    def __init__(self, model: _Optional[str] = ..., model_digest: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., services: _Optional[_Iterable[_Union[ServiceStatus, _Mapping]]] = ..., device: _Optional[_Union[_monitor_service_pb2.DeviceSnapshot, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[_scheduler_service_pb2.QueueStatus, _Mapping]]] = ..., usage: _Optional[_Union[TenantUsage, _Mapping]] = ..., backend: _Optional[str] = ..., kv_cache_dtype: _Optional[str] = ..., tiers: _Optional[_Union[_adapter_pb2.TierStatistics, _Mapping]] = ..., restrictions: _Optional[_Iterable[_Union[_scheduler_service_pb2.Restriction, _Mapping]]] = ..., pressure: _Optional[_Union[_monitor_service_pb2.DevicePressure, _Mapping]] = ..., encoder: _Optional[str] = ..., encoder_digest: _Optional[str] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("name", "is_ready")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_ready: bool
    def __init__(self, name: _Optional[str] = ..., is_ready: _Optional[bool] = ...) -> None: ...

class TenantUsage(_message.Message):
    __slots__ = ("tenant_id", "num_requests", "num_prompt_tokens", "num_output_tokens", "num_running", "max_concurrent_requests", "max_tokens_per_minute", "engine_time", "energy_joules", "max_requests_per_minute", "max_adapters", "max_adapter_bytes")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    ENERGY_JOULES_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUESTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    num_requests: int
    num_prompt_tokens: int
    num_output_tokens: int
    num_running: int
    max_concurrent_requests: int
    max_tokens_per_minute: int
    engine_time: _duration_pb2.Duration
    energy_joules: float
    max_requests_per_minute: int
    max_adapters: int
    max_adapter_bytes: int
    def __init__(self, tenant_id: _Optional[str] = ..., num_requests: _Optional[int] = ..., num_prompt_tokens: _Optional[int] = ..., num_output_tokens: _Optional[int] = ..., num_running: _Optional[int] = ..., max_concurrent_requests: _Optional[int] = ..., max_tokens_per_minute: _Optional[int] = ..., engine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., energy_joules: _Optional[float] = ..., max_requests_per_minute: _Optional[int] = ..., max_adapters: _Optional[int] = ..., max_adapter_bytes: _Optional[int] = ...) -> None: ...

class RegisterAdapterRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: AdapterUploadHeader
    chunk: AdapterUploadChunk
    def __init__(self, header: _Optional[_Union[AdapterUploadHeader, _Mapping]] = ..., chunk: _Optional[_Union[AdapterUploadChunk, _Mapping]] = ...) -> None: ...

class AdapterUploadHeader(_message.Message):
    __slots__ = ("alias", "files", "description", "replace_alias", "expected_generation", "version_of_digest")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALIAS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_OF_DIGEST_FIELD_NUMBER: _ClassVar[int]
    alias: str
    files: _containers.RepeatedCompositeFieldContainer[AdapterUploadFile]
    description: str
    replace_alias: bool
    expected_generation: int
    version_of_digest: str
    def __init__(self, alias: _Optional[str] = ..., files: _Optional[_Iterable[_Union[AdapterUploadFile, _Mapping]]] = ..., description: _Optional[str] = ..., replace_alias: _Optional[bool] = ..., expected_generation: _Optional[int] = ..., version_of_digest: _Optional[str] = ...) -> None: ...

class AdapterUploadFile(_message.Message):
    __slots__ = ("name", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class AdapterUploadChunk(_message.Message):
    __slots__ = ("file_name", "data")
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file_name: str
    data: bytes
    def __init__(self, file_name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class RegisterAdapterResponse(_message.Message):
    __slots__ = ("adapter", "alias", "is_new")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    alias: _adapter_pb2.AdapterAlias
    is_new: bool
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ..., alias: _Optional[_Union[_adapter_pb2.AdapterAlias, _Mapping]] = ..., is_new: _Optional[bool] = ...) -> None: ...

class SetAdapterAliasRequest(_message.Message):
    __slots__ = ("name", "digest", "expected_generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    expected_generation: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., expected_generation: _Optional[int] = ...) -> None: ...

class SetAdapterAliasResponse(_message.Message):
    __slots__ = ("alias",)
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    alias: _adapter_pb2.AdapterAlias
    def __init__(self, alias: _Optional[_Union[_adapter_pb2.AdapterAlias, _Mapping]] = ...) -> None: ...

class DeleteAdapterRequest(_message.Message):
    __slots__ = ("adapter",)
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    def __init__(self, adapter: _Optional[str] = ...) -> None: ...

class DeleteAdapterResponse(_message.Message):
    __slots__ = ("removed_aliases", "removed_digest")
    REMOVED_ALIASES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    removed_aliases: _containers.RepeatedScalarFieldContainer[str]
    removed_digest: str
    def __init__(self, removed_aliases: _Optional[_Iterable[str]] = ..., removed_digest: _Optional[str] = ...) -> None: ...
