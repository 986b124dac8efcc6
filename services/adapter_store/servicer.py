"""Proto to domain and back for AdapterStoreService; nothing else."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.adapter_format import is_digest
from edgelora.errors import InvalidRequestError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1 import adapter_store_service_pb2_grpc as rpc
from edgelora.v1.adapter_pb2 import Adapter, AdapterAlias, AdapterState, ResolvedAdapter
from edgelora.v1.ticket_pb2 import Sealed
from services.adapter_store.library import AdapterLibrary, UploadHeader
from services.adapter_store.manifest import AdapterManifest, Alias
from services.adapter_store.names import Selection, is_worker_name
from services.adapter_store.residency import AdapterPlace, SlotReport, WorkerReport
from services.adapter_store.upload import FileKind
from services.chassis.claims import open_claim, open_ticket
from services.chassis.sealing import Sealer

_MAX_REPORTED = 4096
_STATES = {
    AdapterPlace.REGISTERED: AdapterState.ADAPTER_STATE_REGISTERED,
    AdapterPlace.LOADING: AdapterState.ADAPTER_STATE_LOADING,
    AdapterPlace.RESIDENT: AdapterState.ADAPTER_STATE_RESIDENT,
    AdapterPlace.FAILED: AdapterState.ADAPTER_STATE_FAILED,
}
_KINDS: dict[int, FileKind] = {
    pb.ADAPTER_FILE_CONFIG: "config",
    pb.ADAPTER_FILE_WEIGHTS: "weights",
}
Context = grpc.aio.ServicerContext[Any, Any]


class AdapterStoreServicer(rpc.AdapterStoreServiceServicer):
    """The store behind gRPC."""

    def __init__(
        self,
        library: AdapterLibrary,
        sealer: Sealer,
        boot_clock_s: Callable[[], float],
        note_residency_change: Callable[[], None],
    ) -> None:
        self._library = library
        self._sealer = sealer
        self._boot_clock_s = boot_clock_s
        self._note_residency_change = note_residency_change

    async def RegisterAdapter(
        self,
        request_iterator: AsyncIterator[pb.AdapterStoreServiceRegisterAdapterRequest],
        context: Context,
    ) -> pb.AdapterStoreServiceRegisterAdapterResponse:
        """Stores an upload."""
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidRequestError("an upload starts with its header", field="header")
        header = first.header
        tenant_id = self._tenant(header.claim)
        registration = await self._library.register(
            tenant_id,
            UploadHeader(
                alias=header.alias or None,
                description=header.description,
                replace_alias=header.replace_alias,
                config_bytes=header.config_size_bytes,
                weights_bytes=header.weights_size_bytes,
            ),
            _chunks(request_iterator),
        )
        manifest, alias = registration.manifest, registration.alias
        structlog.contextvars.bind_contextvars(
            adapter_digest=manifest.digest, is_new=registration.is_new
        )
        _, aliases = self._library.adapters_of(tenant_id)
        return pb.AdapterStoreServiceRegisterAdapterResponse(
            adapter=self._adapter(manifest, aliases),
            alias=None if alias is None else _alias(alias),
            is_new=registration.is_new,
        )

    async def ResolveAdapters(
        self, request: pb.ResolveAdaptersRequest, context: Context
    ) -> pb.ResolveAdaptersResponse:
        """Authorises selections."""
        tenant_id = self._tenant(request.claim)
        resolved, counts = self._library.resolve(
            tenant_id,
            [
                Selection(
                    selection.adapter,
                    selection.strength if selection.HasField("strength") else 1.0,
                )
                for selection in request.adapters
            ],
        )
        structlog.contextvars.bind_contextvars(adapter_digests=[each.digest for each in resolved])
        return pb.ResolveAdaptersResponse(
            adapters=[
                ResolvedAdapter(
                    digest=each.digest,
                    strength=each.strength,
                    alias=each.alias or "",
                    state=_STATES[each.place],
                )
                for each in resolved
            ],
            residencies=[
                pb.WorkerResidency(worker=worker, num_resident=count)
                for worker, count in counts.items()
            ],
        )

    async def ListAdapters(
        self, request: pb.AdapterStoreServiceListAdaptersRequest, context: Context
    ) -> pb.AdapterStoreServiceListAdaptersResponse:
        """Lists a tenant's adapters."""
        manifests, aliases = self._library.adapters_of(self._tenant(request.claim))
        names: dict[str, list[Alias]] = {}
        for alias in aliases:
            names.setdefault(alias.digest, []).append(alias)
        return pb.AdapterStoreServiceListAdaptersResponse(
            adapters=[
                self._adapter(manifest, names.get(manifest.digest, [])) for manifest in manifests
            ],
            aliases=[_alias(alias) for alias in aliases],
        )

    async def SetAdapterAlias(
        self, request: pb.AdapterStoreServiceSetAdapterAliasRequest, context: Context
    ) -> pb.AdapterStoreServiceSetAdapterAliasResponse:
        """Points a name to a digest."""
        alias = await self._library.set_alias(
            self._tenant(request.claim),
            request.name,
            request.digest,
            request.expected_generation if request.HasField("expected_generation") else None,
        )
        return pb.AdapterStoreServiceSetAdapterAliasResponse(alias=_alias(alias))

    async def DeleteAdapter(
        self, request: pb.AdapterStoreServiceDeleteAdapterRequest, context: Context
    ) -> pb.AdapterStoreServiceDeleteAdapterResponse:
        """Removes an alias or an adapter."""
        removal = await self._library.delete(self._tenant(request.claim), request.adapter)
        return pb.AdapterStoreServiceDeleteAdapterResponse(
            removed_aliases=removal.aliases, removed_digest=removal.digest or ""
        )

    async def FetchAdapter(
        self, request: pb.FetchAdapterRequest, context: Context
    ) -> AsyncIterator[pb.FetchAdapterResponse]:
        """Gives a worker the files a ticket allows."""
        ticket = open_ticket(self._sealer, request.ticket, self._boot_clock_s())
        structlog.contextvars.bind_contextvars(tenant_id=ticket.tenant_id)
        manifest = await self._library.fetch(
            ticket.tenant_id, [adapter.digest for adapter in ticket.adapters], request.digest
        )
        structlog.contextvars.bind_contextvars(adapter_digest=manifest.digest)
        if request.can_read_shared_directory:
            location = pb.SharedLocation(
                config_blob=manifest.config_blob, weights_blob=manifest.weights_blob
            )
            yield pb.FetchAdapterResponse(location=location)
            return
        for file, blob in (
            (pb.ADAPTER_FILE_CONFIG, manifest.config_blob),
            (pb.ADAPTER_FILE_WEIGHTS, manifest.weights_blob),
        ):
            async for data in self._library.read(blob):
                yield pb.FetchAdapterResponse(chunk=pb.FetchedChunk(file=file, data=data))

    async def ReportResidency(
        self, request: pb.ReportResidencyRequest, context: Context
    ) -> pb.ReportResidencyResponse:
        """Takes a worker's report."""
        report = _report(request, self._boot_clock_s())
        structlog.contextvars.bind_contextvars(worker=report.worker)
        deleted, is_change = self._library.report(report)
        if is_change:
            self._note_residency_change()
        return pb.ReportResidencyResponse(deleted_digests=deleted)

    def _tenant(self, claim: Sealed) -> str:
        tenant_id = open_claim(self._sealer, claim, self._boot_clock_s()).tenant_id
        structlog.contextvars.bind_contextvars(tenant_id=tenant_id)
        return tenant_id

    def _adapter(self, manifest: AdapterManifest, aliases: list[Alias]) -> Adapter:
        registered_at = Timestamp()
        registered_at.FromMilliseconds(round(manifest.registered_at_s * 1000))
        return Adapter(
            digest=manifest.digest,
            aliases=[alias.name for alias in aliases if alias.digest == manifest.digest],
            base_digest=manifest.base_digest,
            rank=manifest.rank,
            alpha=manifest.alpha,
            target_modules=manifest.target_modules,
            num_parameters=manifest.num_parameters,
            size_bytes=manifest.weights_bytes,
            registered_at=registered_at,
            state=_STATES[self._library.place(manifest.digest)],
            description=manifest.description,
        )


async def _chunks(
    requests: AsyncIterator[pb.AdapterStoreServiceRegisterAdapterRequest],
) -> AsyncIterator[tuple[FileKind, bytes]]:
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise InvalidRequestError("only chunks may follow the header", field="chunk")
        if request.chunk.file not in _KINDS:
            raise InvalidRequestError("the chunk names no file of an adapter", field="chunk.file")
        yield _KINDS[request.chunk.file], request.chunk.data


def _alias(alias: Alias) -> AdapterAlias:
    return AdapterAlias(name=alias.name, digest=alias.digest, generation=alias.generation)


def _report(request: pb.ReportResidencyRequest, now_s: float) -> WorkerReport:
    if not is_worker_name(request.worker):
        raise InvalidRequestError("the worker's name is malformed", field="worker")
    if len(request.adapters) > _MAX_REPORTED or len(request.refused) > _MAX_REPORTED:
        raise InvalidRequestError(
            f"a report holds at most {_MAX_REPORTED} adapters", field="adapters"
        )
    refused = frozenset(entry.digest for entry in request.refused)
    if not all(map(is_digest, [*refused, *(entry.digest for entry in request.adapters)])):
        raise InvalidRequestError("a digest is malformed", field="adapters")
    slots = {}
    for adapter in request.adapters:
        idle_s = adapter.idle_s if math.isfinite(adapter.idle_s) else 0.0
        slots[adapter.digest] = SlotReport(
            digest=adapter.digest,
            num_references=adapter.num_references,
            last_used_s=now_s - max(0.0, idle_s),
            is_loading=adapter.is_loading,
        )
    return WorkerReport(
        worker=request.worker,
        incarnation=request.incarnation,
        reported_at_s=now_s,
        slots=slots,
        refused=refused,
    )
