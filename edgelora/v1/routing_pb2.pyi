import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RoutingReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROUTING_REASON_UNSPECIFIED: _ClassVar[RoutingReason]
    ROUTING_REASON_BEST: _ClassVar[RoutingReason]
    ROUTING_REASON_RESIDENT: _ClassVar[RoutingReason]
    ROUTING_REASON_BASE: _ClassVar[RoutingReason]
ROUTING_REASON_UNSPECIFIED: RoutingReason
ROUTING_REASON_BEST: RoutingReason
ROUTING_REASON_RESIDENT: RoutingReason
ROUTING_REASON_BASE: RoutingReason

class Routing(_message.Message):
    __slots__ = ("adapters", "base_share", "reason", "decision_time", "num_candidates")
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    BASE_SHARE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DECISION_TIME_FIELD_NUMBER: _ClassVar[int]
    NUM_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[RoutedAdapter]
    base_share: float
    reason: RoutingReason
    decision_time: _duration_pb2.Duration
    num_candidates: int
    def __init__(self, adapters: _Optional[_Iterable[_Union[RoutedAdapter, _Mapping]]] = ..., base_share: _Optional[float] = ..., reason: _Optional[_Union[RoutingReason, str]] = ..., decision_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., num_candidates: _Optional[int] = ...) -> None: ...

class RoutedAdapter(_message.Message):
    __slots__ = ("digest", "alias", "share")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    alias: str
    share: float
    def __init__(self, digest: _Optional[str] = ..., alias: _Optional[str] = ..., share: _Optional[float] = ...) -> None: ...
