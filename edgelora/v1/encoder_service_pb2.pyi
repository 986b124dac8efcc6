import datetime

from edgelora.v1 import encoding_pb2 as _encoding_pb2
from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EncoderServiceClassifyRequest(_message.Message):
    __slots__ = ("ticket", "texts", "top_labels")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    TOP_LABELS_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    texts: _containers.RepeatedScalarFieldContainer[str]
    top_labels: int
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., texts: _Optional[_Iterable[str]] = ..., top_labels: _Optional[int] = ...) -> None: ...

class EncoderServiceClassifyResponse(_message.Message):
    __slots__ = ("classifications", "usage", "engine_time")
    CLASSIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    classifications: _containers.RepeatedCompositeFieldContainer[_encoding_pb2.Classification]
    usage: _encoding_pb2.EncodingUsage
    engine_time: _duration_pb2.Duration
    def __init__(self, classifications: _Optional[_Iterable[_Union[_encoding_pb2.Classification, _Mapping]]] = ..., usage: _Optional[_Union[_encoding_pb2.EncodingUsage, _Mapping]] = ..., engine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class EncoderServiceEmbedRequest(_message.Message):
    __slots__ = ("ticket", "texts")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class EncoderServiceEmbedResponse(_message.Message):
    __slots__ = ("embeddings", "usage", "engine_time")
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    embeddings: _containers.RepeatedCompositeFieldContainer[_encoding_pb2.Embedding]
    usage: _encoding_pb2.EncodingUsage
    engine_time: _duration_pb2.Duration
    def __init__(self, embeddings: _Optional[_Iterable[_Union[_encoding_pb2.Embedding, _Mapping]]] = ..., usage: _Optional[_Union[_encoding_pb2.EncodingUsage, _Mapping]] = ..., engine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetEncoderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEncoderResponse(_message.Message):
    __slots__ = ("name", "digest", "max_context_tokens", "hidden_size", "backend", "max_lora_rank", "family", "num_parameters", "weights_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_SIZE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MAX_LORA_RANK_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    NUM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    max_context_tokens: int
    hidden_size: int
    backend: str
    max_lora_rank: int
    family: str
    num_parameters: int
    weights_bytes: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., hidden_size: _Optional[int] = ..., backend: _Optional[str] = ..., max_lora_rank: _Optional[int] = ..., family: _Optional[str] = ..., num_parameters: _Optional[int] = ..., weights_bytes: _Optional[int] = ...) -> None: ...

class GetEncoderStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEncoderStatusResponse(_message.Message):
    __slots__ = ("num_adapter_slots", "num_resident_adapters", "num_steps", "num_texts", "num_tokens", "step_time", "weights_bytes", "adapter_slots_bytes")
    NUM_ADAPTER_SLOTS_FIELD_NUMBER: _ClassVar[int]
    NUM_RESIDENT_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_TEXTS_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STEP_TIME_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_SLOTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    num_adapter_slots: int
    num_resident_adapters: int
    num_steps: int
    num_texts: int
    num_tokens: int
    step_time: _duration_pb2.Duration
    weights_bytes: int
    adapter_slots_bytes: int
    def __init__(self, num_adapter_slots: _Optional[int] = ..., num_resident_adapters: _Optional[int] = ..., num_steps: _Optional[int] = ..., num_texts: _Optional[int] = ..., num_tokens: _Optional[int] = ..., step_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., weights_bytes: _Optional[int] = ..., adapter_slots_bytes: _Optional[int] = ...) -> None: ...
