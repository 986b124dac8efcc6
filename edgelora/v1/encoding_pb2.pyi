from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    TASK_GENERATE: _ClassVar[Task]
    TASK_ENCODE: _ClassVar[Task]
TASK_UNSPECIFIED: Task
TASK_GENERATE: Task
TASK_ENCODE: Task

class Classification(_message.Message):
    __slots__ = ("labels", "is_out_of_scope")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IS_OUT_OF_SCOPE_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[LabelScore]
    is_out_of_scope: bool
    def __init__(self, labels: _Optional[_Iterable[_Union[LabelScore, _Mapping]]] = ..., is_out_of_scope: _Optional[bool] = ...) -> None: ...

class LabelScore(_message.Message):
    __slots__ = ("label", "probability")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    label: str
    probability: float
    def __init__(self, label: _Optional[str] = ..., probability: _Optional[float] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class EncodingUsage(_message.Message):
    __slots__ = ("num_tokens", "num_truncated_texts")
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_TRUNCATED_TEXTS_FIELD_NUMBER: _ClassVar[int]
    num_tokens: int
    num_truncated_texts: int
    def __init__(self, num_tokens: _Optional[int] = ..., num_truncated_texts: _Optional[int] = ...) -> None: ...

class ClassifierHead(_message.Message):
    __slots__ = ("labels", "knows_out_of_scope")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KNOWS_OUT_OF_SCOPE_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    knows_out_of_scope: bool
    def __init__(self, labels: _Optional[_Iterable[str]] = ..., knows_out_of_scope: _Optional[bool] = ...) -> None: ...
