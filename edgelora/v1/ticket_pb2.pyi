from edgelora.v1 import adapter_pb2 as _adapter_pb2
from edgelora.v1 import encoding_pb2 as _encoding_pb2
from edgelora.v1 import generation_pb2 as _generation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Sealed(_message.Message):
    __slots__ = ("payload", "signature")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    signature: bytes
    def __init__(self, payload: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class TenantClaim(_message.Message):
    __slots__ = ("tenant_id", "expires_at_boot_s", "request_id", "max_adapters", "max_adapter_bytes")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    expires_at_boot_s: float
    request_id: str
    max_adapters: int
    max_adapter_bytes: int
    def __init__(self, tenant_id: _Optional[str] = ..., expires_at_boot_s: _Optional[float] = ..., request_id: _Optional[str] = ..., max_adapters: _Optional[int] = ..., max_adapter_bytes: _Optional[int] = ...) -> None: ...

class OperatorClaim(_message.Message):
    __slots__ = ("expires_at_boot_s", "request_id")
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    expires_at_boot_s: float
    request_id: str
    def __init__(self, expires_at_boot_s: _Optional[float] = ..., request_id: _Optional[str] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("ticket_id", "tenant_id", "request_id", "worker", "adapters", "priority", "max_output_tokens", "expires_at_boot_s", "task")
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ticket_id: str
    tenant_id: str
    request_id: str
    worker: str
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.ResolvedAdapter]
    priority: _generation_pb2.PriorityClass
    max_output_tokens: int
    expires_at_boot_s: float
    task: _encoding_pb2.Task
    def __init__(self, ticket_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., request_id: _Optional[str] = ..., worker: _Optional[str] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]]] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., max_output_tokens: _Optional[int] = ..., expires_at_boot_s: _Optional[float] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ...) -> None: ...

class WarmUpPermit(_message.Message):
    __slots__ = ("tenant_id", "digest", "worker", "expires_at_boot_s")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    digest: str
    worker: str
    expires_at_boot_s: float
    def __init__(self, tenant_id: _Optional[str] = ..., digest: _Optional[str] = ..., worker: _Optional[str] = ..., expires_at_boot_s: _Optional[float] = ...) -> None: ...

class RunLimits(_message.Message):
    __slots__ = ("worker", "seqs_share", "prefill_share", "threads_share", "expires_at_boot_s", "generation")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SEQS_SHARE_FIELD_NUMBER: _ClassVar[int]
    PREFILL_SHARE_FIELD_NUMBER: _ClassVar[int]
    THREADS_SHARE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    worker: str
    seqs_share: float
    prefill_share: float
    threads_share: float
    expires_at_boot_s: float
    generation: int
    def __init__(self, worker: _Optional[str] = ..., seqs_share: _Optional[float] = ..., prefill_share: _Optional[float] = ..., threads_share: _Optional[float] = ..., expires_at_boot_s: _Optional[float] = ..., generation: _Optional[int] = ...) -> None: ...
