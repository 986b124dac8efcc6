import datetime

from edgelora.v1 import monitor_service_pb2 as _monitor_service_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_AUTHOR: _ClassVar[Role]
    ROLE_TRUSTED: _ClassVar[Role]
ROLE_UNSPECIFIED: Role
ROLE_USER: Role
ROLE_AUTHOR: Role
ROLE_TRUSTED: Role

class ReportDeviceRequest(_message.Message):
    __slots__ = ("report",)
    REPORT_FIELD_NUMBER: _ClassVar[int]
    report: _monitor_service_pb2.DeviceReport
    def __init__(self, report: _Optional[_Union[_monitor_service_pb2.DeviceReport, _Mapping]] = ...) -> None: ...

class ReportDeviceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("tenant_id", "max_concurrent_requests", "max_tokens_per_minute", "created_at", "revoked_at", "role", "quotas", "spiffe_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SPIFFE_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    max_concurrent_requests: int
    max_tokens_per_minute: int
    created_at: _timestamp_pb2.Timestamp
    revoked_at: _timestamp_pb2.Timestamp
    role: Role
    quotas: TenantQuotas
    spiffe_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., max_concurrent_requests: _Optional[int] = ..., max_tokens_per_minute: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revoked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., quotas: _Optional[_Union[TenantQuotas, _Mapping]] = ..., spiffe_id: _Optional[str] = ...) -> None: ...

class TenantQuotas(_message.Message):
    __slots__ = ("max_concurrent_requests", "max_tokens_per_minute", "max_requests_per_minute", "max_adapters", "max_adapter_bytes")
    MAX_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUESTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_ADAPTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_concurrent_requests: int
    max_tokens_per_minute: int
    max_requests_per_minute: int
    max_adapters: int
    max_adapter_bytes: int
    def __init__(self, max_concurrent_requests: _Optional[int] = ..., max_tokens_per_minute: _Optional[int] = ..., max_requests_per_minute: _Optional[int] = ..., max_adapters: _Optional[int] = ..., max_adapter_bytes: _Optional[int] = ...) -> None: ...

class UpdateTenantRequest(_message.Message):
    __slots__ = ("tenant_id", "role", "quotas", "spiffe_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SPIFFE_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    role: Role
    quotas: TenantQuotas
    spiffe_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., quotas: _Optional[_Union[TenantQuotas, _Mapping]] = ..., spiffe_id: _Optional[str] = ...) -> None: ...

class UpdateTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class ApiKey(_message.Message):
    __slots__ = ("key_id", "created_at", "expires_at", "revoked_at")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    created_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    revoked_at: _timestamp_pb2.Timestamp
    def __init__(self, key_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revoked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("tenant_id", "overlap")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    overlap: _duration_pb2.Duration
    def __init__(self, tenant_id: _Optional[str] = ..., overlap: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CreateKeyResponse(_message.Message):
    __slots__ = ("key", "api_key")
    KEY_FIELD_NUMBER: _ClassVar[int]
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    key: ApiKey
    api_key: str
    def __init__(self, key: _Optional[_Union[ApiKey, _Mapping]] = ..., api_key: _Optional[str] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[ApiKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[ApiKey, _Mapping]]] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("tenant_id", "key_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    key_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., key_id: _Optional[str] = ...) -> None: ...

class RevokeKeyResponse(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: ApiKey
    def __init__(self, key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
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

class GrantAdapterRequest(_message.Message):
    __slots__ = ("owner_tenant_id", "adapter", "tenant_id", "alias")
    OWNER_TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    owner_tenant_id: str
    adapter: str
    tenant_id: str
    alias: str
    def __init__(self, owner_tenant_id: _Optional[str] = ..., adapter: _Optional[str] = ..., tenant_id: _Optional[str] = ..., alias: _Optional[str] = ...) -> None: ...

class GrantAdapterResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class WithdrawAdapterRequest(_message.Message):
    __slots__ = ("tenant_id", "digest")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    digest: str
    def __init__(self, tenant_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class WithdrawAdapterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGrantsRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class ListGrantsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("totals",)
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    totals: _containers.RepeatedCompositeFieldContainer[UsageTotal]
    def __init__(self, totals: _Optional[_Iterable[_Union[UsageTotal, _Mapping]]] = ...) -> None: ...

class UsageTotal(_message.Message):
    __slots__ = ("tenant_id", "num_requests", "num_refused", "num_prompt_tokens", "num_output_tokens", "engine_time", "energy_joules", "since")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    NUM_REFUSED_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    ENERGY_JOULES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    num_requests: int
    num_refused: int
    num_prompt_tokens: int
    num_output_tokens: int
    engine_time: _duration_pb2.Duration
    energy_joules: float
    since: _timestamp_pb2.Timestamp
    def __init__(self, tenant_id: _Optional[str] = ..., num_requests: _Optional[int] = ..., num_refused: _Optional[int] = ..., num_prompt_tokens: _Optional[int] = ..., num_output_tokens: _Optional[int] = ..., engine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., energy_joules: _Optional[float] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("tenant_id", "max_concurrent_requests", "max_tokens_per_minute", "role", "quotas", "spiffe_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SPIFFE_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    max_concurrent_requests: int
    max_tokens_per_minute: int
    role: Role
    quotas: TenantQuotas
    spiffe_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., max_concurrent_requests: _Optional[int] = ..., max_tokens_per_minute: _Optional[int] = ..., role: _Optional[_Union[Role, str]] = ..., quotas: _Optional[_Union[TenantQuotas, _Mapping]] = ..., spiffe_id: _Optional[str] = ...) -> None: ...

class CreateTenantResponse(_message.Message):
    __slots__ = ("tenant", "api_key")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    api_key: str
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ..., api_key: _Optional[str] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants",)
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    def __init__(self, tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ...) -> None: ...

class RevokeTenantRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class RevokeTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...
