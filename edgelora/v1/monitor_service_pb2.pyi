import datetime

from edgelora.v1 import ticket_pb2 as _ticket_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatteryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATTERY_STATE_UNSPECIFIED: _ClassVar[BatteryState]
    BATTERY_STATE_CHARGING: _ClassVar[BatteryState]
    BATTERY_STATE_DISCHARGING: _ClassVar[BatteryState]
    BATTERY_STATE_FULL: _ClassVar[BatteryState]
    BATTERY_STATE_NOT_CHARGING: _ClassVar[BatteryState]
    BATTERY_STATE_UNKNOWN: _ClassVar[BatteryState]

class PressureLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRESSURE_LEVEL_UNSPECIFIED: _ClassVar[PressureLevel]
    PRESSURE_LEVEL_UNKNOWN: _ClassVar[PressureLevel]
    PRESSURE_LEVEL_NORMAL: _ClassVar[PressureLevel]
    PRESSURE_LEVEL_ELEVATED: _ClassVar[PressureLevel]
    PRESSURE_LEVEL_CRITICAL: _ClassVar[PressureLevel]
BATTERY_STATE_UNSPECIFIED: BatteryState
BATTERY_STATE_CHARGING: BatteryState
BATTERY_STATE_DISCHARGING: BatteryState
BATTERY_STATE_FULL: BatteryState
BATTERY_STATE_NOT_CHARGING: BatteryState
BATTERY_STATE_UNKNOWN: BatteryState
PRESSURE_LEVEL_UNSPECIFIED: PressureLevel
PRESSURE_LEVEL_UNKNOWN: PressureLevel
PRESSURE_LEVEL_NORMAL: PressureLevel
PRESSURE_LEVEL_ELEVATED: PressureLevel
PRESSURE_LEVEL_CRITICAL: PressureLevel

class GetSnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("snapshot", "pressure")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    snapshot: DeviceSnapshot
    pressure: DevicePressure
    def __init__(self, snapshot: _Optional[_Union[DeviceSnapshot, _Mapping]] = ..., pressure: _Optional[_Union[DevicePressure, _Mapping]] = ...) -> None: ...

class DeviceSnapshot(_message.Message):
    __slots__ = ("sampled_at", "age", "temperature_celsius", "thermal_zones", "cpu_frequency_hz", "cpu_max_frequency_hz", "cpu_utilisation", "memory_total_bytes", "memory_available_bytes", "battery", "cpu_stall", "memory_stall", "io_stall", "processes", "num_cores", "gpus", "reporting_sources")
    SAMPLED_AT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    THERMAL_ZONES_FIELD_NUMBER: _ClassVar[int]
    CPU_FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    CPU_MAX_FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    CPU_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATTERY_FIELD_NUMBER: _ClassVar[int]
    CPU_STALL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_STALL_FIELD_NUMBER: _ClassVar[int]
    IO_STALL_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    NUM_CORES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    REPORTING_SOURCES_FIELD_NUMBER: _ClassVar[int]
    sampled_at: _timestamp_pb2.Timestamp
    age: _duration_pb2.Duration
    temperature_celsius: float
    thermal_zones: _containers.RepeatedCompositeFieldContainer[ThermalZone]
    cpu_frequency_hz: float
    cpu_max_frequency_hz: float
    cpu_utilisation: float
    memory_total_bytes: int
    memory_available_bytes: int
    battery: Battery
    cpu_stall: float
    memory_stall: float
    io_stall: float
    processes: _containers.RepeatedCompositeFieldContainer[ProcessSample]
    num_cores: int
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    reporting_sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sampled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., temperature_celsius: _Optional[float] = ..., thermal_zones: _Optional[_Iterable[_Union[ThermalZone, _Mapping]]] = ..., cpu_frequency_hz: _Optional[float] = ..., cpu_max_frequency_hz: _Optional[float] = ..., cpu_utilisation: _Optional[float] = ..., memory_total_bytes: _Optional[int] = ..., memory_available_bytes: _Optional[int] = ..., battery: _Optional[_Union[Battery, _Mapping]] = ..., cpu_stall: _Optional[float] = ..., memory_stall: _Optional[float] = ..., io_stall: _Optional[float] = ..., processes: _Optional[_Iterable[_Union[ProcessSample, _Mapping]]] = ..., num_cores: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., reporting_sources: _Optional[_Iterable[str]] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("name", "temperature_celsius", "utilisation", "memory_total_bytes", "memory_used_bytes", "power_w")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    name: str
    temperature_celsius: float
    utilisation: float
    memory_total_bytes: int
    memory_used_bytes: int
    power_w: float
    def __init__(self, name: _Optional[str] = ..., temperature_celsius: _Optional[float] = ..., utilisation: _Optional[float] = ..., memory_total_bytes: _Optional[int] = ..., memory_used_bytes: _Optional[int] = ..., power_w: _Optional[float] = ...) -> None: ...

class DeviceReport(_message.Message):
    __slots__ = ("source", "battery_charge", "battery_state", "temperatures", "is_withdrawn", "expires_at_boot_s")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATTERY_CHARGE_FIELD_NUMBER: _ClassVar[int]
    BATTERY_STATE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURES_FIELD_NUMBER: _ClassVar[int]
    IS_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    source: str
    battery_charge: float
    battery_state: BatteryState
    temperatures: _containers.RepeatedCompositeFieldContainer[ReportedTemperature]
    is_withdrawn: bool
    expires_at_boot_s: float
    def __init__(self, source: _Optional[str] = ..., battery_charge: _Optional[float] = ..., battery_state: _Optional[_Union[BatteryState, str]] = ..., temperatures: _Optional[_Iterable[_Union[ReportedTemperature, _Mapping]]] = ..., is_withdrawn: _Optional[bool] = ..., expires_at_boot_s: _Optional[float] = ...) -> None: ...

class ReportedTemperature(_message.Message):
    __slots__ = ("name", "temperature_celsius")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    temperature_celsius: float
    def __init__(self, name: _Optional[str] = ..., temperature_celsius: _Optional[float] = ...) -> None: ...

class ReportReadingsRequest(_message.Message):
    __slots__ = ("report",)
    REPORT_FIELD_NUMBER: _ClassVar[int]
    report: _ticket_pb2.Sealed
    def __init__(self, report: _Optional[_Union[_ticket_pb2.Sealed, _Mapping]] = ...) -> None: ...

class ReportReadingsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ThermalZone(_message.Message):
    __slots__ = ("name", "temperature_celsius", "is_processor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    IS_PROCESSOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    temperature_celsius: float
    is_processor: bool
    def __init__(self, name: _Optional[str] = ..., temperature_celsius: _Optional[float] = ..., is_processor: _Optional[bool] = ...) -> None: ...

class Battery(_message.Message):
    __slots__ = ("charge", "state", "power_w")
    CHARGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    charge: float
    state: BatteryState
    power_w: float
    def __init__(self, charge: _Optional[float] = ..., state: _Optional[_Union[BatteryState, str]] = ..., power_w: _Optional[float] = ...) -> None: ...

class ProcessSample(_message.Message):
    __slots__ = ("service", "pid", "rss_bytes", "cpu_cores", "growth_bytes_per_hour", "is_growing")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_CORES_FIELD_NUMBER: _ClassVar[int]
    GROWTH_BYTES_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    IS_GROWING_FIELD_NUMBER: _ClassVar[int]
    service: str
    pid: int
    rss_bytes: int
    cpu_cores: float
    growth_bytes_per_hour: float
    is_growing: bool
    def __init__(self, service: _Optional[str] = ..., pid: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., cpu_cores: _Optional[float] = ..., growth_bytes_per_hour: _Optional[float] = ..., is_growing: _Optional[bool] = ...) -> None: ...

class WatchPressureRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchPressureResponse(_message.Message):
    __slots__ = ("pressure", "snapshot")
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    pressure: DevicePressure
    snapshot: DeviceSnapshot
    def __init__(self, pressure: _Optional[_Union[DevicePressure, _Mapping]] = ..., snapshot: _Optional[_Union[DeviceSnapshot, _Mapping]] = ...) -> None: ...

class DevicePressure(_message.Message):
    __slots__ = ("temperature", "memory", "battery")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    BATTERY_FIELD_NUMBER: _ClassVar[int]
    temperature: DimensionPressure
    memory: DimensionPressure
    battery: DimensionPressure
    def __init__(self, temperature: _Optional[_Union[DimensionPressure, _Mapping]] = ..., memory: _Optional[_Union[DimensionPressure, _Mapping]] = ..., battery: _Optional[_Union[DimensionPressure, _Mapping]] = ...) -> None: ...

class DimensionPressure(_message.Message):
    __slots__ = ("level", "held", "reading", "threshold", "sensor", "explanation")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SENSOR_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    level: PressureLevel
    held: _duration_pb2.Duration
    reading: float
    threshold: float
    sensor: str
    explanation: str
    def __init__(self, level: _Optional[_Union[PressureLevel, str]] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reading: _Optional[float] = ..., threshold: _Optional[float] = ..., sensor: _Optional[str] = ..., explanation: _Optional[str] = ...) -> None: ...
