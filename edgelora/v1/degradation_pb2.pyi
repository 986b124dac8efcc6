import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DegradationStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEGRADATION_STEP_UNSPECIFIED: _ClassVar[DegradationStep]
    DEGRADATION_STEP_RANK_CUT: _ClassVar[DegradationStep]
    DEGRADATION_STEP_ADAPTER_OFF: _ClassVar[DegradationStep]
    DEGRADATION_STEP_SHORTER_OUTPUT: _ClassVar[DegradationStep]
DEGRADATION_STEP_UNSPECIFIED: DegradationStep
DEGRADATION_STEP_RANK_CUT: DegradationStep
DEGRADATION_STEP_ADAPTER_OFF: DegradationStep
DEGRADATION_STEP_SHORTER_OUTPUT: DegradationStep

class DegradationPreference(_message.Message):
    __slots__ = ("is_refused", "fallback_adapter")
    IS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_ADAPTER_FIELD_NUMBER: _ClassVar[int]
    is_refused: bool
    fallback_adapter: str
    def __init__(self, is_refused: _Optional[bool] = ..., fallback_adapter: _Optional[str] = ...) -> None: ...

class Degradation(_message.Message):
    __slots__ = ("step", "rule", "reading", "held", "adapter_digest", "served_digest", "adapter_alias", "max_output_tokens", "explanation")
    STEP_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SERVED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_ALIAS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    step: DegradationStep
    rule: str
    reading: float
    held: _duration_pb2.Duration
    adapter_digest: str
    served_digest: str
    adapter_alias: str
    max_output_tokens: int
    explanation: str
    def __init__(self, step: _Optional[_Union[DegradationStep, str]] = ..., rule: _Optional[str] = ..., reading: _Optional[float] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., adapter_digest: _Optional[str] = ..., served_digest: _Optional[str] = ..., adapter_alias: _Optional[str] = ..., max_output_tokens: _Optional[int] = ..., explanation: _Optional[str] = ...) -> None: ...
