from edgelora.v1 import adapter_pb2 as _adapter_pb2
from edgelora.v1 import encoding_pb2 as _encoding_pb2
from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdapterFile(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADAPTER_FILE_UNSPECIFIED: _ClassVar[AdapterFile]
    ADAPTER_FILE_CONFIG: _ClassVar[AdapterFile]
    ADAPTER_FILE_WEIGHTS: _ClassVar[AdapterFile]
    ADAPTER_FILE_PROBE: _ClassVar[AdapterFile]
    ADAPTER_FILE_ENCODED: _ClassVar[AdapterFile]
    ADAPTER_FILE_CARD: _ClassVar[AdapterFile]
    ADAPTER_FILE_HEAD: _ClassVar[AdapterFile]
ADAPTER_FILE_UNSPECIFIED: AdapterFile
ADAPTER_FILE_CONFIG: AdapterFile
ADAPTER_FILE_WEIGHTS: AdapterFile
ADAPTER_FILE_PROBE: AdapterFile
ADAPTER_FILE_ENCODED: AdapterFile
ADAPTER_FILE_CARD: AdapterFile
ADAPTER_FILE_HEAD: AdapterFile

class AdapterStoreServiceRegisterAdapterRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: StoreUploadHeader
    chunk: StoreUploadChunk
    def __init__(self, header: _Optional[_Union[StoreUploadHeader, _Mapping]] = ..., chunk: _Optional[_Union[StoreUploadChunk, _Mapping]] = ...) -> None: ...

class StoreUploadHeader(_message.Message):
    __slots__ = ("claim", "alias", "description", "replace_alias", "config_size_bytes", "weights_size_bytes", "probe_size_bytes", "expected_generation", "card_size_bytes", "version_of_digest", "head_size_bytes")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALIAS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROBE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    CARD_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VERSION_OF_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HEAD_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    alias: str
    description: str
    replace_alias: bool
    config_size_bytes: int
    weights_size_bytes: int
    probe_size_bytes: int
    expected_generation: int
    card_size_bytes: int
    version_of_digest: str
    head_size_bytes: int
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., alias: _Optional[str] = ..., description: _Optional[str] = ..., replace_alias: _Optional[bool] = ..., config_size_bytes: _Optional[int] = ..., weights_size_bytes: _Optional[int] = ..., probe_size_bytes: _Optional[int] = ..., expected_generation: _Optional[int] = ..., card_size_bytes: _Optional[int] = ..., version_of_digest: _Optional[str] = ..., head_size_bytes: _Optional[int] = ...) -> None: ...

class StoreUploadChunk(_message.Message):
    __slots__ = ("file", "data")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file: AdapterFile
    data: bytes
    def __init__(self, file: _Optional[_Union[AdapterFile, str]] = ..., data: _Optional[bytes] = ...) -> None: ...

class AdapterStoreServiceRegisterAdapterResponse(_message.Message):
    __slots__ = ("adapter", "alias", "is_new")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    alias: _adapter_pb2.AdapterAlias
    is_new: bool
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ..., alias: _Optional[_Union[_adapter_pb2.AdapterAlias, _Mapping]] = ..., is_new: _Optional[bool] = ...) -> None: ...

class AdapterStoreServiceInstallAdapterRequest(_message.Message):
    __slots__ = ("claim", "package", "alias", "description", "replace_alias", "expected_generation")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALIAS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    package: str
    alias: str
    description: str
    replace_alias: bool
    expected_generation: int
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., package: _Optional[str] = ..., alias: _Optional[str] = ..., description: _Optional[str] = ..., replace_alias: _Optional[bool] = ..., expected_generation: _Optional[int] = ...) -> None: ...

class AdapterStoreServiceInstallAdapterResponse(_message.Message):
    __slots__ = ("progress", "registered")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    progress: _adapter_pb2.TransferProgress
    registered: AdapterStoreServiceRegisterAdapterResponse
    def __init__(self, progress: _Optional[_Union[_adapter_pb2.TransferProgress, _Mapping]] = ..., registered: _Optional[_Union[AdapterStoreServiceRegisterAdapterResponse, _Mapping]] = ...) -> None: ...

class ResolveAdaptersRequest(_message.Message):
    __slots__ = ("claim", "adapters", "user", "max_rank", "task")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MAX_RANK_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterSelection]
    user: str
    max_rank: int
    task: _encoding_pb2.Task
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., adapters: _Optional[_Iterable[_Union[_adapter_pb2.AdapterSelection, _Mapping]]] = ..., user: _Optional[str] = ..., max_rank: _Optional[int] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ...) -> None: ...

class ResolveAdaptersResponse(_message.Message):
    __slots__ = ("adapters", "residencies")
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    RESIDENCIES_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.ResolvedAdapter]
    residencies: _containers.RepeatedCompositeFieldContainer[WorkerResidency]
    def __init__(self, adapters: _Optional[_Iterable[_Union[_adapter_pb2.ResolvedAdapter, _Mapping]]] = ..., residencies: _Optional[_Iterable[_Union[WorkerResidency, _Mapping]]] = ...) -> None: ...

class ListCandidatesRequest(_message.Message):
    __slots__ = ("claim", "version")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    version: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., version: _Optional[str] = ...) -> None: ...

class ListCandidatesResponse(_message.Message):
    __slots__ = ("candidates", "version", "resident_digests")
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedCompositeFieldContainer[RouteCandidate]
    version: str
    resident_digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, candidates: _Optional[_Iterable[_Union[RouteCandidate, _Mapping]]] = ..., version: _Optional[str] = ..., resident_digests: _Optional[_Iterable[str]] = ...) -> None: ...

class RouteCandidate(_message.Message):
    __slots__ = ("digest", "alias", "lowest_rank", "description", "example_prompts")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    LOWEST_RANK_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_PROMPTS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    alias: str
    lowest_rank: int
    description: str
    example_prompts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., alias: _Optional[str] = ..., lowest_rank: _Optional[int] = ..., description: _Optional[str] = ..., example_prompts: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerResidency(_message.Message):
    __slots__ = ("worker", "num_resident")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NUM_RESIDENT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    num_resident: int
    def __init__(self, worker: _Optional[str] = ..., num_resident: _Optional[int] = ...) -> None: ...

class AdapterStoreServiceListAdaptersRequest(_message.Message):
    __slots__ = ("claim", "page_size", "page_token")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    page_size: int
    page_token: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceListAdaptersResponse(_message.Message):
    __slots__ = ("adapters", "aliases", "next_page_token")
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.Adapter]
    aliases: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterAlias]
    next_page_token: str
    def __init__(self, adapters: _Optional[_Iterable[_Union[_adapter_pb2.Adapter, _Mapping]]] = ..., aliases: _Optional[_Iterable[_Union[_adapter_pb2.AdapterAlias, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceGetAdapterRequest(_message.Message):
    __slots__ = ("claim", "adapter")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    adapter: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., adapter: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceGetAdapterResponse(_message.Message):
    __slots__ = ("adapter", "aliases")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    aliases: _containers.RepeatedCompositeFieldContainer[_adapter_pb2.AdapterAlias]
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ..., aliases: _Optional[_Iterable[_Union[_adapter_pb2.AdapterAlias, _Mapping]]] = ...) -> None: ...

class AdapterStoreServicePinAdapterRequest(_message.Message):
    __slots__ = ("claim", "adapter", "is_pinned")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    IS_PINNED_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    adapter: str
    is_pinned: bool
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., adapter: _Optional[str] = ..., is_pinned: _Optional[bool] = ...) -> None: ...

class AdapterStoreServicePinAdapterResponse(_message.Message):
    __slots__ = ("adapter",)
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    adapter: _adapter_pb2.Adapter
    def __init__(self, adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ...) -> None: ...

class AdapterStoreServiceSetWarmUpRequest(_message.Message):
    __slots__ = ("claim", "is_enabled", "forget")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    is_enabled: bool
    forget: bool
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., is_enabled: _Optional[bool] = ..., forget: _Optional[bool] = ...) -> None: ...

class AdapterStoreServiceSetWarmUpResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _adapter_pb2.WarmUpState
    def __init__(self, state: _Optional[_Union[_adapter_pb2.WarmUpState, _Mapping]] = ...) -> None: ...

class GetTiersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTiersResponse(_message.Message):
    __slots__ = ("tiers",)
    TIERS_FIELD_NUMBER: _ClassVar[int]
    tiers: _adapter_pb2.TierStatistics
    def __init__(self, tiers: _Optional[_Union[_adapter_pb2.TierStatistics, _Mapping]] = ...) -> None: ...

class AdapterStoreServiceSetAdapterAliasRequest(_message.Message):
    __slots__ = ("claim", "name", "digest", "expected_generation")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    name: str
    digest: str
    expected_generation: int
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., name: _Optional[str] = ..., digest: _Optional[str] = ..., expected_generation: _Optional[int] = ...) -> None: ...

class AdapterStoreServiceSetAdapterAliasResponse(_message.Message):
    __slots__ = ("alias",)
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    alias: _adapter_pb2.AdapterAlias
    def __init__(self, alias: _Optional[_Union[_adapter_pb2.AdapterAlias, _Mapping]] = ...) -> None: ...

class AdapterStoreServiceDeleteAdapterRequest(_message.Message):
    __slots__ = ("claim", "adapter")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    adapter: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., adapter: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceDeleteAdapterResponse(_message.Message):
    __slots__ = ("removed_aliases", "removed_digest")
    REMOVED_ALIASES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    removed_aliases: _containers.RepeatedScalarFieldContainer[str]
    removed_digest: str
    def __init__(self, removed_aliases: _Optional[_Iterable[str]] = ..., removed_digest: _Optional[str] = ...) -> None: ...

class FetchAdapterRequest(_message.Message):
    __slots__ = ("ticket", "digest", "can_read_shared_directory")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CAN_READ_SHARED_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ticket: _ticket_pb2.Sealed
    digest: str
    can_read_shared_directory: bool
    def __init__(self, ticket: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., digest: _Optional[str] = ..., can_read_shared_directory: _Optional[bool] = ...) -> None: ...

class FetchAdapterResponse(_message.Message):
    __slots__ = ("location", "chunk", "certificate", "remote_s")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_S_FIELD_NUMBER: _ClassVar[int]
    location: SharedLocation
    chunk: FetchedChunk
    certificate: _adapter_pb2.AdapterCertificate
    remote_s: float
    def __init__(self, location: _Optional[_Union[SharedLocation, _Mapping]] = ..., chunk: _Optional[_Union[FetchedChunk, _Mapping]] = ..., certificate: _Optional[_Union[_adapter_pb2.AdapterCertificate, _Mapping]] = ..., remote_s: _Optional[float] = ...) -> None: ...

class SharedLocation(_message.Message):
    __slots__ = ("config_blob", "weights_blob", "encoded_blob", "head_blob")
    CONFIG_BLOB_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BLOB_FIELD_NUMBER: _ClassVar[int]
    ENCODED_BLOB_FIELD_NUMBER: _ClassVar[int]
    HEAD_BLOB_FIELD_NUMBER: _ClassVar[int]
    config_blob: str
    weights_blob: str
    encoded_blob: str
    head_blob: str
    def __init__(self, config_blob: _Optional[str] = ..., weights_blob: _Optional[str] = ..., encoded_blob: _Optional[str] = ..., head_blob: _Optional[str] = ...) -> None: ...

class FetchedChunk(_message.Message):
    __slots__ = ("file", "data")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file: AdapterFile
    data: bytes
    def __init__(self, file: _Optional[_Union[AdapterFile, str]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReportResidencyRequest(_message.Message):
    __slots__ = ("worker", "adapters", "num_slots", "refused", "incarnation", "loads", "evictions", "num_slot_waits", "memory_bytes", "memory_budget_bytes", "sequence", "task")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOT_WAITS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    worker: str
    adapters: _containers.RepeatedCompositeFieldContainer[ResidentAdapter]
    num_slots: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedAdapter]
    incarnation: int
    loads: _containers.RepeatedCompositeFieldContainer[FinishedLoad]
    evictions: _containers.RepeatedCompositeFieldContainer[EvictedAdapter]
    num_slot_waits: int
    memory_bytes: int
    memory_budget_bytes: int
    sequence: int
    task: _encoding_pb2.Task
    def __init__(self, worker: _Optional[str] = ..., adapters: _Optional[_Iterable[_Union[ResidentAdapter, _Mapping]]] = ..., num_slots: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedAdapter, _Mapping]]] = ..., incarnation: _Optional[int] = ..., loads: _Optional[_Iterable[_Union[FinishedLoad, _Mapping]]] = ..., evictions: _Optional[_Iterable[_Union[EvictedAdapter, _Mapping]]] = ..., num_slot_waits: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., sequence: _Optional[int] = ..., task: _Optional[_Union[_encoding_pb2.Task, str]] = ...) -> None: ...

class FinishedLoad(_message.Message):
    __slots__ = ("digest", "is_warm_up", "bytes_read", "stages")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    IS_WARM_UP_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    is_warm_up: bool
    bytes_read: int
    stages: _adapter_pb2.LoadStages
    def __init__(self, digest: _Optional[str] = ..., is_warm_up: _Optional[bool] = ..., bytes_read: _Optional[int] = ..., stages: _Optional[_Union[_adapter_pb2.LoadStages, _Mapping]] = ...) -> None: ...

class EvictedAdapter(_message.Message):
    __slots__ = ("digest", "was_wasted")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WAS_WASTED_FIELD_NUMBER: _ClassVar[int]
    digest: str
    was_wasted: bool
    def __init__(self, digest: _Optional[str] = ..., was_wasted: _Optional[bool] = ...) -> None: ...

class ResidentAdapter(_message.Message):
    __slots__ = ("digest", "num_references", "idle_s", "is_loading", "size_bytes")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NUM_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    IS_LOADING_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    num_references: int
    idle_s: float
    is_loading: bool
    size_bytes: int
    def __init__(self, digest: _Optional[str] = ..., num_references: _Optional[int] = ..., idle_s: _Optional[float] = ..., is_loading: _Optional[bool] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class RefusedAdapter(_message.Message):
    __slots__ = ("digest", "reason")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    digest: str
    reason: str
    def __init__(self, digest: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReportResidencyResponse(_message.Message):
    __slots__ = ("deleted_digests", "pinned_digests", "warm_ups")
    DELETED_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    PINNED_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    WARM_UPS_FIELD_NUMBER: _ClassVar[int]
    deleted_digests: _containers.RepeatedScalarFieldContainer[str]
    pinned_digests: _containers.RepeatedScalarFieldContainer[str]
    warm_ups: _containers.RepeatedCompositeFieldContainer[WarmUp]
    def __init__(self, deleted_digests: _Optional[_Iterable[str]] = ..., pinned_digests: _Optional[_Iterable[str]] = ..., warm_ups: _Optional[_Iterable[_Union[WarmUp, _Mapping]]] = ...) -> None: ...

class WarmUp(_message.Message):
    __slots__ = ("digest", "permit", "evict_digest")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    EVICT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    permit: _ticket_pb2.Sealed
    evict_digest: str
    def __init__(self, digest: _Optional[str] = ..., permit: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., evict_digest: _Optional[str] = ...) -> None: ...

class AdapterGrant(_message.Message):
    __slots__ = ("owner_tenant_id", "digest", "tenant_id", "alias")
    OWNER_TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    owner_tenant_id: str
    digest: str
    tenant_id: str
    alias: str
    def __init__(self, owner_tenant_id: _Optional[str] = ..., digest: _Optional[str] = ..., tenant_id: _Optional[str] = ..., alias: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceGrantAdapterRequest(_message.Message):
    __slots__ = ("claim", "owner_tenant_id", "adapter", "tenant_id", "alias")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    OWNER_TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    owner_tenant_id: str
    adapter: str
    tenant_id: str
    alias: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., owner_tenant_id: _Optional[str] = ..., adapter: _Optional[str] = ..., tenant_id: _Optional[str] = ..., alias: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceGrantAdapterResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: AdapterGrant
    def __init__(self, grant: _Optional[_Union[AdapterGrant, _Mapping]] = ...) -> None: ...

class AdapterStoreServiceWithdrawAdapterRequest(_message.Message):
    __slots__ = ("claim", "tenant_id", "digest")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    tenant_id: str
    digest: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., tenant_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceWithdrawAdapterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AdapterStoreServiceListGrantsRequest(_message.Message):
    __slots__ = ("claim", "tenant_id")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    tenant_id: str
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class AdapterStoreServiceListGrantsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[AdapterGrant]
    def __init__(self, grants: _Optional[_Iterable[_Union[AdapterGrant, _Mapping]]] = ...) -> None: ...

class ListLibraryRequest(_message.Message):
    __slots__ = ("claim", "max_entries")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    MAX_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    claim: _ticket_pb2.Sealed
    max_entries: int
    def __init__(self, claim: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ..., max_entries: _Optional[int] = ...) -> None: ...

class ListLibraryResponse(_message.Message):
    __slots__ = ("entries", "num_adapters")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NUM_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LibraryEntry]
    num_adapters: int
    def __init__(self, entries: _Optional[_Iterable[_Union[LibraryEntry, _Mapping]]] = ..., num_adapters: _Optional[int] = ...) -> None: ...

class LibraryEntry(_message.Message):
    __slots__ = ("digest", "names", "num_tenants", "adapter")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    NUM_TENANTS_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    digest: str
    names: _containers.RepeatedScalarFieldContainer[str]
    num_tenants: int
    adapter: _adapter_pb2.Adapter
    def __init__(self, digest: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., num_tenants: _Optional[int] = ..., adapter: _Optional[_Union[_adapter_pb2.Adapter, _Mapping]] = ...) -> None: ...
