"""From the store's own terms to protobuf messages and back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.adapter_format import is_digest
from edgelora.errors import InvalidRequestError
from edgelora.v1 import adapter_pb2 as adapter_pb
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1 import encoding_pb2 as encoding_pb
from edgelora.v1.encoding_pb2 import ClassifierHead
from services.adapter_store.forecast.warm_up import WarmUpState
from services.adapter_store.library import ListedAdapter, ResolvedSelection
from services.adapter_store.names import is_worker_name
from services.adapter_store.registry.grants import Grant
from services.adapter_store.registry.manifest import (
    AdapterManifest,
    Alias,
    Candidate,
    ServingForm,
    Task,
)
from services.adapter_store.residency import AdapterPlace, SlotReport, WorkerReport
from services.adapter_store.usage import Counters, FinishedLoad, LoadStages
from services.adapter_store.warming import WarmUpWish

_MAX_REPORTED = 4096
_MAX_REPORTED_BYTES = 1 << 40
"""More than any device has; sums of what is told have to fit into the messages that tell them."""
_STATES = {
    AdapterPlace.REGISTERED: adapter_pb.ADAPTER_STATE_REGISTERED,
    AdapterPlace.LOADING: adapter_pb.ADAPTER_STATE_LOADING,
    AdapterPlace.RESIDENT: adapter_pb.ADAPTER_STATE_RESIDENT,
    AdapterPlace.FAILED: adapter_pb.ADAPTER_STATE_FAILED,
}
_FORMS = {
    ServingForm.EXACT: adapter_pb.SERVING_FORM_EXACT,
    ServingForm.ENCODED_3: adapter_pb.SERVING_FORM_ENCODED_3,
    ServingForm.ENCODED_4: adapter_pb.SERVING_FORM_ENCODED_4,
    ServingForm.ENCODED_8: adapter_pb.SERVING_FORM_ENCODED_8,
}
_TASKS = {Task.GENERATE: encoding_pb.TASK_GENERATE, Task.ENCODE: encoding_pb.TASK_ENCODE}
_UPLOAD = "upload"
"""Source of an adapter that its tenant sent."""
_GRANT = "grant"
"""Source of an adapter of another tenant."""


def adapter_message(
    listed: ListedAdapter, place: AdapterPlace, labels: Sequence[str] = ()
) -> adapter_pb.Adapter:
    """One adapter, without what only its own page shows, such as a classifier's `labels`."""
    manifest, content = listed.manifest, listed.manifest.content
    registered_at = Timestamp()
    registered_at.FromMilliseconds(round(manifest.registered_at_s * 1000))
    return adapter_pb.Adapter(
        digest=content.digest,
        aliases=[alias.name for alias in listed.aliases],
        base_digest=content.base_digest,
        rank=content.rank,
        alpha=content.alpha,
        target_modules=content.target_modules,
        num_parameters=content.num_parameters,
        size_bytes=content.weights_bytes,
        registered_at=registered_at,
        state=_STATES[place],
        description=manifest.description,
        certificate_digest=content.certificate_digest or "",
        lineage=_lineage(manifest),
        flash_bytes=content.flash_bytes,
        is_on_flash=content.is_on_flash,
        is_pinned=manifest.is_pinned,
        version_of_digest=manifest.version_of_digest or "",
        is_granted=manifest.granted_by is not None,
        task=_TASKS[content.task],
        head=ClassifierHead(labels=labels, knows_out_of_scope=content.knows_out_of_scope)
        if content.num_labels
        else None,
    )


def task_of(task: int) -> Task:
    """A task as the store calls it. Raises InvalidRequestError."""
    if task in (encoding_pb.TASK_UNSPECIFIED, encoding_pb.TASK_GENERATE):
        return Task.GENERATE
    if task == encoding_pb.TASK_ENCODE:
        return Task.ENCODE
    raise InvalidRequestError("there is no such task", field="task")


def grant_message(grant: Grant) -> pb.AdapterGrant:
    """One grant, for the operator."""
    return pb.AdapterGrant(
        owner_tenant_id=grant.owner_id,
        digest=grant.digest,
        tenant_id=grant.tenant_id,
        alias=grant.name or "",
    )


def alias_message(alias: Alias) -> adapter_pb.AdapterAlias:
    """One alias."""
    return adapter_pb.AdapterAlias(
        name=alias.name, digest=alias.digest, generation=alias.generation
    )


def resolved_message(selection: ResolvedSelection) -> adapter_pb.ResolvedAdapter:
    """One authorised selection."""
    manifest, alias = selection.manifest, selection.alias
    return adapter_pb.ResolvedAdapter(
        digest=manifest.digest,
        strength=selection.strength,
        alias="" if alias is None else alias.name,
        state=_STATES[selection.place],
        generation=0 if alias is None else alias.generation,
        certificate_digest=manifest.content.certificate_digest or "",
        lineage=_lineage(manifest),
        rank=manifest.content.rank,
        version_of_digest=selection.version_of_digest or "",
    )


def candidate_message(candidate: Candidate) -> pb.RouteCandidate:
    """One adapter the router may choose."""
    return pb.RouteCandidate(
        digest=candidate.digest,
        alias=candidate.alias or "",
        lowest_rank=candidate.lowest_rank,
        description=candidate.description,
        example_prompts=candidate.example_prompts,
    )


def certificate_message(
    manifest: AdapterManifest, document: str | None
) -> adapter_pb.AdapterCertificate:
    """What was proven; only the form when there is no certificate."""
    message = adapter_pb.AdapterCertificate(
        document=document or "", form=_FORMS[manifest.content.form]
    )
    if document is None:
        return message
    certificate: dict[str, Any] = json.loads(document)
    encoding, measurement = certificate["encoding"], certificate["measurement"]
    if encoding is not None:
        message.bits_per_parameter = encoding["bits_per_parameter"]
    if measurement is None:
        return message
    for logit in measurement["canary"]["largest"]:
        message.canary.add(token_id=logit["token_id"], logit=logit["logit"])
    if (divergence := measurement["divergence"]) is not None:
        message.mean_kl = divergence["mean_kl"]
        message.max_kl = divergence["max_kl"]
        message.top1_agreement = divergence["top1_agreement"]
    if (task := measurement["task"]) is not None:
        message.task_metric_before = task["before"]
        message.task_metric_after = task["after"]
    return message


def usage_message(counters: Counters) -> adapter_pb.AdapterUsage:
    """One adapter's counters."""
    message = adapter_pb.AdapterUsage(
        num_memory_hits=counters.num_memory_hits,
        num_flash_hits=counters.num_flash_hits,
        num_remote_hits=counters.num_remote_hits,
        num_loads=counters.num_loads,
        num_warm_ups=counters.num_warm_ups,
        num_wasted_warm_ups=counters.num_wasted_warm_ups,
        flash_bytes_read=counters.flash_bytes_read,
        remote_bytes_read=counters.remote_bytes_read,
    )
    if counters.num_loads:
        message.last_load.CopyFrom(stages_message(counters.load))
    return message


def stages_message(stages: LoadStages) -> adapter_pb.LoadStages:
    """Seconds by stage."""
    return adapter_pb.LoadStages(
        remote_s=stages.remote_s,
        fetch_s=stages.fetch_s,
        check_s=stages.check_s,
        decode_s=stages.decode_s,
        prove_s=stages.prove_s,
    )


def warm_up_message(wish: WarmUpWish) -> pb.WarmUp:
    """What a worker is asked to load."""
    return pb.WarmUp(digest=wish.digest, permit=wish.permit, evict_digest=wish.evict_digest or "")


def warm_up_state_message(state: WarmUpState) -> adapter_pb.WarmUpState:
    """What is known of a tenant's habits."""
    return adapter_pb.WarmUpState(
        is_enabled=state.is_enabled,
        num_uses=state.num_uses,
        forecasts=[
            adapter_pb.AdapterForecast(
                digest=each.digest, probability=each.probability, reasons=each.reasons
            )
            for each in state.forecasts
        ],
    )


def worker_report(request: pb.ReportResidencyRequest, now_s: float) -> WorkerReport:
    """A worker's report, checked for form. Raises InvalidRequestError."""
    if not is_worker_name(request.worker):
        raise InvalidRequestError("the worker's name is malformed", field="worker")
    lists = (request.adapters, request.refused, request.loads, request.evictions)
    if any(len(entries) > _MAX_REPORTED for entries in lists):
        raise InvalidRequestError(
            f"a report holds at most {_MAX_REPORTED} adapters", field="adapters"
        )
    refused = frozenset(entry.digest for entry in request.refused)
    if not all(is_digest(entry.digest) for entries in lists for entry in entries):
        raise InvalidRequestError("a digest is malformed", field="adapters")
    sizes = (
        request.memory_bytes,
        request.memory_budget_bytes,
        *(load.bytes_read for load in request.loads),
    )
    if max(sizes) > _MAX_REPORTED_BYTES:
        raise InvalidRequestError(
            f"a report tells of at most {_MAX_REPORTED_BYTES} bytes", field="memory_bytes"
        )
    slots = {}
    for adapter in request.adapters:
        slots[adapter.digest] = SlotReport(
            digest=adapter.digest,
            num_references=adapter.num_references,
            last_used_s=now_s - _seconds(adapter.idle_s),
            is_loading=adapter.is_loading,
            size_bytes=adapter.size_bytes,
        )
    return WorkerReport(
        worker=request.worker,
        incarnation=request.incarnation,
        reported_at_s=now_s,
        slots=slots,
        refused=refused,
        num_slots=request.num_slots,
        memory_bytes=request.memory_bytes,
        memory_budget_bytes=request.memory_budget_bytes,
        task=task_of(request.task),
    )


def finished_load(message: pb.FinishedLoad) -> FinishedLoad:
    """A load a worker reported."""
    stages = message.stages
    return FinishedLoad(
        digest=message.digest,
        is_warm_up=message.is_warm_up,
        bytes_read=message.bytes_read,
        stages=LoadStages(
            remote_s=_seconds(stages.remote_s),
            fetch_s=_seconds(stages.fetch_s),
            check_s=_seconds(stages.check_s),
            decode_s=_seconds(stages.decode_s),
            prove_s=_seconds(stages.prove_s),
        ),
    )


def _seconds(value: float) -> float:
    """A duration somebody sent; nonsense counts as none."""
    return max(0.0, value) if math.isfinite(value) else 0.0


def _lineage(manifest: AdapterManifest) -> adapter_pb.AdapterLineage:
    source = _UPLOAD if manifest.granted_by is None else _GRANT
    return adapter_pb.AdapterLineage(
        source=manifest.package or source, parent_digest=manifest.parent_digest or ""
    )
