import datetime

from edgelora.v1 import adapter_pb2 as _adapter_pb2
from edgelora.v1 import degradation_pb2 as _degradation_pb2
from edgelora.v1 import encoding_pb2 as _encoding_pb2
from edgelora.v1 import generation_pb2 as _generation_pb2
from edgelora.v1 import routing_pb2 as _routing_pb2
from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcquireRequest(_message.Message):
    __slots__ = ("claim", "adapters", "priority", "estimated_tokens", "max_output_tokens", "user", "remaining", "degradation", "routing_text", "task")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    DEGRADATION_FIELD_NUMBER: _ClassVar[int]
    ROUTING_TEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterSelection]
    priority: _generation_pb2.PriorityClass
    estimated_tokens: int
    max_output_tokens: int
    user: str
    remaining: _duration_pb2.Duration
    degradation: _degradation_pb2.DegradationPreference
    routing_text: str
    task: _encoding_pb2.Task
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterSelection, _Mapping]]] = ..., priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., estimated_tokens: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., user: _Optional[str] = ..., remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., degradation: _Optional[_Union[_degradation_pb2.DegradationPreference, _Mapping]] = ..., routing_text: _Optional[str] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("queued", "granted")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    queued: Queued
    granted: Granted
    def __init__(self, queued: _Optional[_Union[Queued, _Mapping]] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ...) -> None: ...

class Queued(_message.Message):
    __slots__ = ("position", "adapters", "degradations", "routing")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    DEGRADATIONS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    position: int
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.ResolvedAdapter]
    degradations: _containers.RepeatedCompositeFieldContainer[_degradation_pb2.Degradation]
    routing: _routing_pb2.Routing
    def __init__(self, position: _Optional[int] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]]] = ..., degradations: _Optional[_Iterable[_Union[_degradation_pb2.Degradation, _Mapping]]] = ..., routing: _Optional[_Union[_routing_pb2.Routing, _Mapping]] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("ticket", "worker_address", "ticket_id", "lease")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    WORKER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    worker_address: str
    ticket_id: str
    lease: _duration_pb2.Duration
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., worker_address: _Optional[str] = ..., ticket_id: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("ticket_id", "claim")
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ticket_id: str
    claim: _ticket_pb2.Sealed
    def __init__(self, ticket_id: _Optional[str] = ..., claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("ticket_id", "claim", "num_prompt_tokens", "num_output_tokens", "time_to_first_token")
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ticket_id: str
    claim: _ticket_pb2.Sealed
    num_prompt_tokens: int
    num_output_tokens: int
    time_to_first_token: _duration_pb2.Duration
    def __init__(self, ticket_id: _Optional[str] = ..., claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., num_prompt_tokens: _Optional[int] = ..., num_output_tokens: _Optional[int] = ..., time_to_first_token: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("claim", "request_id")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    request_id: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("was_waiting",)
    WAS_WAITING_FIELD_NUMBER: _ClassVar[int]
    was_waiting: bool
    def __init__(self, was_waiting: _Optional[bool] = ...) -> None: ...

class GetQueuesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetQueuesResponse(_message.Message):
    __slots__ = ("queues", "workers", "restrictions")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    RESTRICTIONS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStatus]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    restrictions: _containers.RepeatedCompositeFieldContainer[Restriction]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStatus, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., restrictions: _Optional[_Iterable[_Union[Restriction, _Mapping]]] = ...) -> None: ...

class Restriction(_message.Message):
    __slots__ = ("rule", "reading", "held", "explanation")
    RULE_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    rule: str
    reading: float
    held: _duration_pb2.Duration
    explanation: str
    def __init__(self, rule: _Optional[str] = ..., reading: _Optional[float] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., explanation: _Optional[str] = ...) -> None: ...

class QueueStatus(_message.Message):
    __slots__ = ("priority", "num_waiting", "num_running")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    priority: _generation_pb2.PriorityClass
    num_waiting: int
    num_running: int
    def __init__(self, priority: _Optional[_Union[_generation_pb2.PriorityClass, str]] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("name", "address", "is_ready", "num_running", "max_running", "task")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    is_ready: bool
    num_running: int
    max_running: int
    task: _encoding_pb2.Task
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., is_ready: _Optional[bool] = ..., num_running: _Optional[int] = ..., max_running: _Optional[int] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ...) -> None: ...
