import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdapterState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADAPTER_STATE_UNSPECIFIED: _ClassVar[AdapterState]
    ADAPTER_STATE_REGISTERED: _ClassVar[AdapterState]
    ADAPTER_STATE_LOADING: _ClassVar[AdapterState]
    ADAPTER_STATE_RESIDENT: _ClassVar[AdapterState]
    ADAPTER_STATE_FAILED: _ClassVar[AdapterState]
ADAPTER_STATE_UNSPECIFIED: AdapterState
ADAPTER_STATE_REGISTERED: AdapterState
ADAPTER_STATE_LOADING: AdapterState
ADAPTER_STATE_RESIDENT: AdapterState
ADAPTER_STATE_FAILED: AdapterState

class Adapter(_message.Message):
    __slots__ = ("digest", "aliases", "base_digest", "rank", "alpha", "target_modules", "num_parameters", "size_bytes", "registered_at", "state", "description")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    BASE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    TARGET_MODULES_FIELD_NUMBER: _ClassVar[int]
    NUM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    digest: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    base_digest: str
    rank: int
    alpha: float
    target_modules: _containers.RepeatedScalarFieldContainer[str]
    num_parameters: int
    size_bytes: int
    registered_at: _timestamp_pb2.Timestamp
    state: AdapterState
    description: str
    def __init__(self, digest: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., base_digest: _Optional[str] = ..., rank: _Optional[int] = ..., alpha: _Optional[float] = ..., target_modules: _Optional[_Iterable[str]] = ..., num_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ..., registered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[AdapterState, str]] = ..., description: _Optional[str] = ...) -> None: ...

class AdapterAlias(_message.Message):
    __slots__ = ("name", "digest", "generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    generation: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class AdapterSelection(_message.Message):
    __slots__ = ("adapter", "strength")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    strength: float
    def __init__(self, adapter: _Optional[str] = ..., strength: _Optional[float] = ...) -> None: ...

class ResolvedAdapter(_message.Message):
    __slots__ = ("digest", "strength", "alias", "state")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    strength: float
    alias: str
    state: AdapterState
    def __init__(self, digest: _Optional[str] = ..., strength: _Optional[float] = ..., alias: _Optional[str] = ..., state: _Optional[_Union[AdapterState, str]] = ...) -> None: ...
