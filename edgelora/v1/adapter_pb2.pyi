import datetime

from edgelora.v1 import encoding_pb2 as _encoding_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServingForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVING_FORM_UNSPECIFIED: _ClassVar[ServingForm]
    SERVING_FORM_EXACT: _ClassVar[ServingForm]
    SERVING_FORM_ENCODED_3: _ClassVar[ServingForm]
    SERVING_FORM_ENCODED_4: _ClassVar[ServingForm]
    SERVING_FORM_ENCODED_8: _ClassVar[ServingForm]

class AdapterState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADAPTER_STATE_UNSPECIFIED: _ClassVar[AdapterState]
    ADAPTER_STATE_REGISTERED: _ClassVar[AdapterState]
    ADAPTER_STATE_LOADING: _ClassVar[AdapterState]
    ADAPTER_STATE_RESIDENT: _ClassVar[AdapterState]
    ADAPTER_STATE_FAILED: _ClassVar[AdapterState]
SERVING_FORM_UNSPECIFIED: ServingForm
SERVING_FORM_EXACT: ServingForm
SERVING_FORM_ENCODED_3: ServingForm
SERVING_FORM_ENCODED_4: ServingForm
SERVING_FORM_ENCODED_8: ServingForm
ADAPTER_STATE_UNSPECIFIED: AdapterState
ADAPTER_STATE_REGISTERED: AdapterState
ADAPTER_STATE_LOADING: AdapterState
ADAPTER_STATE_RESIDENT: AdapterState
ADAPTER_STATE_FAILED: AdapterState

class Adapter(_message.Message):
    __slots__ = ("digest", "aliases", "base_digest", "rank", "alpha", "target_modules", "num_parameters", "size_bytes", "registered_at", "state", "description", "certificate", "certificate_digest", "lineage", "flash_bytes", "is_on_flash", "is_pinned", "usage", "version_of_digest", "example_prompts", "is_granted", "task", "head")
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
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    FLASH_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_ON_FLASH_FIELD_NUMBER: _ClassVar[int]
    IS_PINNED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_OF_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_PROMPTS_FIELD_NUMBER: _ClassVar[int]
    IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
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
    certificate: AdapterCertificate
    certificate_digest: str
    lineage: AdapterLineage
    flash_bytes: int
    is_on_flash: bool
    is_pinned: bool
    usage: AdapterUsage
    version_of_digest: str
    example_prompts: _containers.RepeatedScalarFieldContainer[str]
    is_granted: bool
    task: _encoding_pb2.Task
    head: _encoding_pb2.ClassifierHead
    def __init__(self, digest: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., base_digest: _Optional[str] = ..., rank: _Optional[int] = ..., alpha: _Optional[float] = ..., target_modules: _Optional[_Iterable[str]] = ..., num_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ..., registered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[AdapterState, str]] = ..., description: _Optional[str] = ..., certificate: _Optional[_Union[AdapterCertificate, _Mapping]] = ..., certificate_digest: _Optional[str] = ..., lineage: _Optional[_Union[AdapterLineage, _Mapping]] = ..., flash_bytes: _Optional[int] = ..., is_on_flash: _Optional[bool] = ..., is_pinned: _Optional[bool] = ..., usage: _Optional[_Union[AdapterUsage, _Mapping]] = ..., version_of_digest: _Optional[str] = ..., example_prompts: _Optional[_Iterable[str]] = ..., is_granted: _Optional[bool] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ..., head: _Optional[_Union[_encoding_pb2.ClassifierHead, _Mapping]] = ...) -> None: ...

class AdapterCertificate(_message.Message):
    __slots__ = ("document", "form", "bits_per_parameter", "mean_kl", "max_kl", "top1_agreement", "task_metric_before", "task_metric_after", "canary")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    BITS_PER_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    MEAN_KL_FIELD_NUMBER: _ClassVar[int]
    MAX_KL_FIELD_NUMBER: _ClassVar[int]
    TOP1_AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    TASK_METRIC_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TASK_METRIC_AFTER_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    document: str
    form: ServingForm
    bits_per_parameter: float
    mean_kl: float
    max_kl: float
    top1_agreement: float
    task_metric_before: float
    task_metric_after: float
    canary: _containers.RepeatedCompositeFieldContainer[CanaryLogit]
    def __init__(self, document: _Optional[str] = ..., form: _Optional[_Union[ServingForm, str]] = ..., bits_per_parameter: _Optional[float] = ..., mean_kl: _Optional[float] = ..., max_kl: _Optional[float] = ..., top1_agreement: _Optional[float] = ..., task_metric_before: _Optional[float] = ..., task_metric_after: _Optional[float] = ..., canary: _Optional[_Iterable[_Union[CanaryLogit, _Mapping]]] = ...) -> None: ...

class CanaryLogit(_message.Message):
    __slots__ = ("token_id", "logit")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    logit: float
    def __init__(self, token_id: _Optional[int] = ..., logit: _Optional[float] = ...) -> None: ...

class AdapterLineage(_message.Message):
    __slots__ = ("source", "parent_digest")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PARENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    source: str
    parent_digest: str
    def __init__(self, source: _Optional[str] = ..., parent_digest: _Optional[str] = ...) -> None: ...

class AdapterUsage(_message.Message):
    __slots__ = ("num_memory_hits", "num_flash_hits", "num_remote_hits", "num_loads", "num_warm_ups", "num_wasted_warm_ups", "flash_bytes_read", "remote_bytes_read", "last_load")
    NUM_MEMORY_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_FLASH_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_REMOTE_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_LOADS_FIELD_NUMBER: _ClassVar[int]
    NUM_WARM_UPS_FIELD_NUMBER: _ClassVar[int]
    NUM_WASTED_WARM_UPS_FIELD_NUMBER: _ClassVar[int]
    FLASH_BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    REMOTE_BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    LAST_LOAD_FIELD_NUMBER: _ClassVar[int]
    num_memory_hits: int
    num_flash_hits: int
    num_remote_hits: int
    num_loads: int
    num_warm_ups: int
    num_wasted_warm_ups: int
    flash_bytes_read: int
    remote_bytes_read: int
    last_load: LoadStages
    def __init__(self, num_memory_hits: _Optional[int] = ..., num_flash_hits: _Optional[int] = ..., num_remote_hits: _Optional[int] = ..., num_loads: _Optional[int] = ..., num_warm_ups: _Optional[int] = ..., num_wasted_warm_ups: _Optional[int] = ..., flash_bytes_read: _Optional[int] = ..., remote_bytes_read: _Optional[int] = ..., last_load: _Optional[_Union[LoadStages, _Mapping]] = ...) -> None: ...

class LoadStages(_message.Message):
    __slots__ = ("remote_s", "fetch_s", "check_s", "decode_s", "prove_s")
    REMOTE_S_FIELD_NUMBER: _ClassVar[int]
    FETCH_S_FIELD_NUMBER: _ClassVar[int]
    CHECK_S_FIELD_NUMBER: _ClassVar[int]
    DECODE_S_FIELD_NUMBER: _ClassVar[int]
    PROVE_S_FIELD_NUMBER: _ClassVar[int]
    remote_s: float
    fetch_s: float
    check_s: float
    decode_s: float
    prove_s: float
    def __init__(self, remote_s: _Optional[float] = ..., fetch_s: _Optional[float] = ..., check_s: _Optional[float] = ..., decode_s: _Optional[float] = ..., prove_s: _Optional[float] = ...) -> None: ...

class TransferProgress(_message.Message):
    __slots__ = ("received_bytes", "total_bytes")
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    received_bytes: int
    total_bytes: int
    def __init__(self, received_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class WarmUpState(_message.Message):
    __slots__ = ("is_enabled", "num_uses", "forecasts")
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    NUM_USES_FIELD_NUMBER: _ClassVar[int]
    FORECASTS_FIELD_NUMBER: _ClassVar[int]
    is_enabled: bool
    num_uses: int
    forecasts: _containers.RepeatedCompositeFieldContainer[AdapterForecast]
    def __init__(self, is_enabled: _Optional[bool] = ..., num_uses: _Optional[int] = ..., forecasts: _Optional[_Iterable[_Union[AdapterForecast, _Mapping]]] = ...) -> None: ...

class AdapterForecast(_message.Message):
    __slots__ = ("digest", "probability", "reasons")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    probability: float
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., probability: _Optional[float] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class TierStatistics(_message.Message):
    __slots__ = ("num_memory_hits", "num_flash_hits", "num_remote_hits", "num_slot_waits", "num_loads", "num_warm_ups", "num_wasted_warm_ups", "flash_bytes_read", "remote_bytes_read", "load_seconds", "flash_bytes", "flash_budget_bytes", "memory_bytes", "memory_budget_bytes", "num_flash_evictions", "num_memory_evictions", "num_adapters")
    NUM_MEMORY_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_FLASH_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_REMOTE_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOT_WAITS_FIELD_NUMBER: _ClassVar[int]
    NUM_LOADS_FIELD_NUMBER: _ClassVar[int]
    NUM_WARM_UPS_FIELD_NUMBER: _ClassVar[int]
    NUM_WASTED_WARM_UPS_FIELD_NUMBER: _ClassVar[int]
    FLASH_BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    REMOTE_BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    LOAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FLASH_BYTES_FIELD_NUMBER: _ClassVar[int]
    FLASH_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUM_FLASH_EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_MEMORY_EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    num_memory_hits: int
    num_flash_hits: int
    num_remote_hits: int
    num_slot_waits: int
    num_loads: int
    num_warm_ups: int
    num_wasted_warm_ups: int
    flash_bytes_read: int
    remote_bytes_read: int
    load_seconds: LoadStages
    flash_bytes: int
    flash_budget_bytes: int
    memory_bytes: int
    memory_budget_bytes: int
    num_flash_evictions: int
    num_memory_evictions: int
    num_adapters: int
    def __init__(self, num_memory_hits: _Optional[int] = ..., num_flash_hits: _Optional[int] = ..., num_remote_hits: _Optional[int] = ..., num_slot_waits: _Optional[int] = ..., num_loads: _Optional[int] = ..., num_warm_ups: _Optional[int] = ..., num_wasted_warm_ups: _Optional[int] = ..., flash_bytes_read: _Optional[int] = ..., remote_bytes_read: _Optional[int] = ..., load_seconds: _Optional[_Union[LoadStages, _Mapping]] = ..., flash_bytes: _Optional[int] = ..., flash_budget_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., num_flash_evictions: _Optional[int] = ..., num_memory_evictions: _Optional[int] = ..., num_adapters: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("digest", "strength", "alias", "state", "generation", "certificate_digest", "lineage", "rank", "version_of_digest")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    VERSION_OF_DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    strength: float
    alias: str
    state: AdapterState
    generation: int
    certificate_digest: str
    lineage: AdapterLineage
    rank: int
    version_of_digest: str
    def __init__(self, digest: _Optional[str] = ..., strength: _Optional[float] = ..., alias: _Optional[str] = ..., state: _Optional[_Union[AdapterState, str]] = ..., generation: _Optional[int] = ..., certificate_digest: _Optional[str] = ..., lineage: _Optional[_Union[AdapterLineage, _Mapping]] = ..., rank: _Optional[int] = ..., version_of_digest: _Optional[str] = ...) -> None: ...

class AdapterStrength(_message.Message):
    __slots__ = ("digest", "strength")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    digest: str
    strength: float
    def __init__(self, digest: _Optional[str] = ..., strength: _Optional[float] = ...) -> None: ...
