"""What the browser gets, as plain values: null is unknown, times are seconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgelora.v1.adapter_pb2 import AdapterState, TierStatistics
from edgelora.v1.adapter_store_service_pb2 import LibraryEntry, ListLibraryResponse
from edgelora.v1.generation_pb2 import PriorityClass
from edgelora.v1.inference_service_pb2 import GetEngineStatusResponse
from edgelora.v1.monitor_service_pb2 import PressureLevel
from edgelora.v1.scheduler_service_pb2 import GetQueuesResponse
from services.gateway.dashboard.device_document import device_document, optional
from services.gateway.dashboard.engine_window import REST, EngineUse
from services.gateway.dashboard.latency_windows import Percentiles
from services.gateway.dashboard.node_look import EncoderLook, NodeLook
from services.gateway.dashboard.pressure_log import dimension_pressures

_MAX_POINT_ADAPTERS = 12
"""A point of the history names so many adapters, the busiest, and adds up the rest."""

Document = dict[str, Any]


def history_point(look: NodeLook) -> Document:
    """What the charts draw."""
    snapshot = look.monitored.snapshot if look.monitored else None
    tiers, engine = look.tiers, look.engine
    return {
        "at": round(look.at_unix_s, 3),
        "share": look.use.share if look.use else None,
        "tokens_per_s": look.use.output_tokens_per_s if look.use else None,
        "adapters": _point_adapters(look.use) if look.use else None,
        "hits": [tiers.num_memory_hits, tiers.num_flash_hits, tiers.num_remote_hits]
        if tiers
        else None,
        "prefix": [engine.num_prefix_hit_tokens, engine.num_prefix_lookup_tokens]
        if engine
        else None,
        "queues": {
            _class_name(queue.priority): [queue.num_waiting, queue.num_running]
            for queue in look.queues.queues
        }
        if look.queues
        else None,
        "first_token_p95": {
            _class_name(priority): latency.time_to_first_token.p95
            for priority, latency in look.latencies.items()
            if latency.time_to_first_token
        },
        "temperature": optional(snapshot, "temperature_celsius"),
        "frequency": optional(snapshot, "cpu_frequency_hz"),
        "battery": optional(snapshot.battery, "charge")
        if snapshot and snapshot.HasField("battery")
        else None,
        "memory": {process.service: process.rss_bytes for process in snapshot.processes}
        if snapshot
        else None,
    }


def node_document(look: NodeLook) -> Document:
    """The node as it is."""
    pressures = dimension_pressures(look.monitored.pressure if look.monitored else None)
    return {
        "at": round(look.at_unix_s, 3),
        "services": dict(look.services),
        "model": {
            "name": look.model.name,
            "backend": look.model.backend,
            "max_context_tokens": look.model.max_context_tokens,
        }
        if look.model
        else None,
        "encoder": _encoder(look.encoder) if look.encoder else None,
        "engine": _engine(look.engine) if look.engine else None,
        "use": _use(look.use) if look.use else None,
        "queues": _queues(look.queues) if look.queues else None,
        "restrictions": [
            {"rule": restriction.rule, "explanation": restriction.explanation}
            for restriction in look.queues.restrictions
        ]
        if look.queues
        else None,
        "latency": {
            _class_name(priority): {
                "first_token": _percentiles(latency.time_to_first_token),
                "output_token": _percentiles(latency.time_per_output_token),
            }
            for priority, latency in look.latencies.items()
        },
        "tiers": _tiers(look.tiers) if look.tiers else None,
        "device": device_document(look.monitored.snapshot) if look.monitored else None,
        "pressure": {
            name: {
                "level": level_name(dimension.level),
                "held": dimension.held.ToMicroseconds() / 1e6
                if dimension.HasField("held")
                else None,
                "reading": optional(dimension, "reading"),
                "threshold": optional(dimension, "threshold"),
                "sensor": dimension.sensor,
                "explanation": dimension.explanation,
            }
            for name, dimension in pressures.items()
        },
        "pressure_changes": [
            {
                "at": change.at_unix_s,
                "dimension": change.dimension,
                "level": level_name(change.level),
                "explanation": change.explanation,
            }
            for change in look.pressure_changes
        ],
        "refusals": [
            {
                "at": refusal.at_unix_s,
                "tenant": refusal.tenant_id,
                "class": _class_name(refusal.priority),
                "reason": refusal.reason,
                "rule": refusal.rule,
                "retry_after": refusal.retry_after_s,
            }
            for refusal in look.refusals
        ],
    }


def library_document(library: ListLibraryResponse | None) -> Document | None:
    """The most used adapters; what is in a slot now is in the node's document."""
    if library is None:
        return None
    return {
        "num_adapters": library.num_adapters,
        "entries": [_entry(entry) for entry in library.entries],
    }


def level_name(level: int) -> str:
    """`normal`, `elevated`, `critical` or `unknown`."""
    name = PressureLevel.Name(level).removeprefix("PRESSURE_LEVEL_").lower()
    return "unknown" if name == "unspecified" else name


def _entry(entry: LibraryEntry) -> Document:
    adapter = entry.adapter
    return {
        "digest": entry.digest,
        "names": list(entry.names),
        "num_tenants": entry.num_tenants,
        "rank": adapter.rank,
        "flash_bytes": adapter.flash_bytes,
        "is_on_flash": adapter.is_on_flash,
        "is_pinned": adapter.is_pinned,
        "is_refused": adapter.state == AdapterState.ADAPTER_STATE_FAILED,
    }


def _point_adapters(use: EngineUse) -> Mapping[str, list[float]]:
    """Digest -> share of the engine, output tokens a second."""
    named = {
        adapter.digest: [adapter.share, adapter.output_tokens_per_s]
        for adapter in use.adapters[:_MAX_POINT_ADAPTERS]
    }
    for adapter in use.adapters[_MAX_POINT_ADAPTERS:]:
        share, tokens_per_s = named.get(REST, [0.0, 0.0])
        named[REST] = [share + adapter.share, tokens_per_s + adapter.output_tokens_per_s]
    return named


def _encoder(encoder: EncoderLook) -> Document:
    status = encoder.status
    return {
        "name": encoder.name,
        "texts_per_s": encoder.texts_per_s,
        "num_adapters": status.num_resident_adapters if status else None,
        "num_adapter_slots": status.num_adapter_slots if status else None,
    }


def _engine(engine: GetEngineStatusResponse) -> Document:
    return {
        "num_running": engine.num_running,
        "num_waiting": engine.num_waiting,
        "max_num_seqs": engine.max_num_seqs,
        "num_threads": engine.num_threads,
        "num_kv_blocks": engine.num_kv_blocks,
        "num_free_kv_blocks": engine.num_free_kv_blocks,
        "num_adapter_slots": engine.num_adapter_slots,
        "num_preemptions": engine.num_preemptions,
        "num_sessions": engine.num_sessions,
        "num_session_tokens": engine.num_session_tokens,
        "slots": [
            {
                "digest": slot.digest,
                "num_references": slot.num_references,
                "bytes": slot.size_bytes,
                "is_loading": slot.is_loading,
            }
            for slot in engine.slots
        ],
    }


def _use(use: EngineUse) -> Document:
    return {
        "share": use.share,
        "tokens_per_s": use.output_tokens_per_s,
        "prompt_tokens_per_s": use.prompt_tokens_per_s,
        "adapters": [
            {
                "digest": adapter.digest,
                "share": adapter.share,
                "tokens_per_s": adapter.output_tokens_per_s,
                "prompt_tokens_per_s": adapter.prompt_tokens_per_s,
            }
            for adapter in use.adapters
        ],
    }


def _queues(queues: GetQueuesResponse) -> list[Document]:
    return [
        {
            "class": _class_name(queue.priority),
            "num_waiting": queue.num_waiting,
            "num_running": queue.num_running,
        }
        for queue in queues.queues
    ]


def _tiers(tiers: TierStatistics) -> Document:
    return {
        "num_adapters": tiers.num_adapters,
        "memory_bytes": tiers.memory_bytes,
        "memory_budget_bytes": tiers.memory_budget_bytes,
        "flash_bytes": tiers.flash_bytes,
        "flash_budget_bytes": tiers.flash_budget_bytes,
        "num_loads": tiers.num_loads,
        "num_warm_ups": tiers.num_warm_ups,
        "num_wasted_warm_ups": tiers.num_wasted_warm_ups,
        "num_slot_waits": tiers.num_slot_waits,
    }


def _percentiles(percentiles: Percentiles | None) -> Document | None:
    if percentiles is None:
        return None
    return {
        "num_values": percentiles.num_values,
        "p50": percentiles.p50,
        "p95": percentiles.p95,
        "p99": percentiles.p99,
    }


def _class_name(priority: int) -> str:
    return PriorityClass.Name(priority).removeprefix("PRIORITY_CLASS_").lower()
