"""Everything one look at the node found; None where nobody answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgelora.v1.adapter_pb2 import TierStatistics
from edgelora.v1.encoder_service_pb2 import GetEncoderStatusResponse
from edgelora.v1.inference_service_pb2 import GetEngineStatusResponse, GetModelResponse
from edgelora.v1.monitor_service_pb2 import GetSnapshotResponse
from edgelora.v1.scheduler_service_pb2 import GetQueuesResponse
from services.gateway.dashboard.engine_window import EngineUse
from services.gateway.dashboard.latency_windows import ClassLatency
from services.gateway.dashboard.pressure_log import PressureChange
from services.gateway.dashboard.refusal_log import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLook:
    """The encoder of a node that has one."""

    name: str
    texts_per_s: float | None
    status: GetEncoderStatusResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLook:
    """One look, and what was derived from those before it."""

    at_unix_s: float
    model: GetModelResponse | None
    services: Mapping[str, bool]
    """Service -> whether it is ready."""
    engine: GetEngineStatusResponse | None
    use: EngineUse | None
    queues: GetQueuesResponse | None
    tiers: TierStatistics | None
    monitored: GetSnapshotResponse | None
    latencies: Mapping[int, ClassLatency]
    encoder: EncoderLook | None
    refusals: Sequence[Refusal]
    pressure_changes: Sequence[PressureChange]
