"""Proto to domain and back for AdapterStoreService; nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import structlog

from edgelora.errors import InvalidRequestError
from edgelora.v1 import adapter_pb2 as adapter_pb
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.ticket_pb2 import Sealed, TenantClaim
from services.adapter_store.messages import (
    adapter_message,
    alias_message,
    candidate_message,
    certificate_message,
    finished_load,
    resolved_message,
    task_of,
    usage_message,
    warm_up_message,
    warm_up_state_message,
    worker_report,
)
from services.adapter_store.names import Selection
from services.adapter_store.operator_servicer import OperatorServicer
from services.adapter_store.permits import open_permission
from services.adapter_store.registration import Registration
from services.adapter_store.registry.pages import decode_token, encode_token, page_size
from services.adapter_store.registry.writer import AdapterQuota
from services.adapter_store.store import Store
from services.adapter_store.upload_messages import (
    upload_chunks,
    upload_sizes,
    upload_wish,
    wish,
)
from services.chassis.claims import open_claim
from services.chassis.sealing import Sealer

Context = grpc.aio.ServicerContext[Any, Any]


class AdapterStoreServicer(OperatorServicer):
    """The store behind gRPC."""

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        boot_clock_s: Callable[[], float],
        note_residency_change: Callable[[], None],
    ) -> None:
        super().__init__(store, sealer, boot_clock_s)
        self._candidates = store.candidates
        self._arrivals = store.arrivals
        self._tiers = store.tiers
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
        claim = self._claim(header.claim)
        registration = await self._arrivals.upload(
            claim.tenant_id,
            upload_wish(header),
            upload_sizes(header),
            upload_chunks(request_iterator),
            _quota(claim),
        )
        return self._registered(registration)

    async def InstallAdapter(
        self, request: pb.AdapterStoreServiceInstallAdapterRequest, context: Context
    ) -> AsyncIterator[pb.AdapterStoreServiceInstallAdapterResponse]:
        """Brings a package and registers it; tells meanwhile how far it is."""
        claim = self._claim(request.claim)
        news: asyncio.Queue[adapter_pb.TransferProgress | None] = asyncio.Queue()

        def on_progress(received_bytes: int, total_bytes: int) -> None:
            news.put_nowait(
                adapter_pb.TransferProgress(received_bytes=received_bytes, total_bytes=total_bytes)
            )

        task = asyncio.create_task(
            self._arrivals.install(
                claim.tenant_id, wish(request), request.package, on_progress, _quota(claim)
            )
        )
        task.add_done_callback(lambda _: news.put_nowait(None))
        try:
            while (progress := await news.get()) is not None:
                yield pb.AdapterStoreServiceInstallAdapterResponse(progress=progress)
            registered = self._registered(await task)
            yield pb.AdapterStoreServiceInstallAdapterResponse(registered=registered)
        finally:
            task.cancel()
            await asyncio.wait([task])

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
            max_rank=request.max_rank or None,
            task=task_of(request.task),
        )
        digests = [each.manifest.digest for each in resolved]
        for digest in digests:
            self._warming.note_use(tenant_id, request.user, digest)
        structlog.contextvars.bind_contextvars(adapter_digests=digests)
        return pb.ResolveAdaptersResponse(
            adapters=[resolved_message(each) for each in resolved],
            residencies=[
                pb.WorkerResidency(worker=worker, num_resident=count)
                for worker, count in counts.items()
            ],
        )

    async def ListCandidates(
        self, request: pb.ListCandidatesRequest, context: Context
    ) -> pb.ListCandidatesResponse:
        """Tells the router which adapters a tenant may use, and what they are for."""
        found = self._candidates.of(self._tenant(request.claim), request.version)
        return pb.ListCandidatesResponse(
            candidates=map(candidate_message, found.candidates or ()),
            version=found.version,
            resident_digests=found.resident_digests,
        )

    async def ListAdapters(
        self, request: pb.AdapterStoreServiceListAdaptersRequest, context: Context
    ) -> pb.AdapterStoreServiceListAdaptersResponse:
        """Lists one page of a tenant's adapters."""
        page, end = self._library.page(
            self._tenant(request.claim),
            page_size(request.page_size),
            decode_token(request.page_token),
        )
        aliases = sorted(
            (alias for listed in page for alias in listed.aliases), key=lambda alias: alias.name
        )
        return pb.AdapterStoreServiceListAdaptersResponse(
            adapters=[
                adapter_message(listed, self._library.place(listed.manifest.digest))
                for listed in page
            ],
            aliases=map(alias_message, aliases),
            next_page_token="" if end is None else encode_token(end),
        )

    async def GetAdapter(
        self, request: pb.AdapterStoreServiceGetAdapterRequest, context: Context
    ) -> pb.AdapterStoreServiceGetAdapterResponse:
        """Tells everything about one adapter."""
        listed = self._library.get(self._tenant(request.claim), request.adapter)
        manifest = listed.manifest
        message = adapter_message(
            listed, self._library.place(manifest.digest), self._library.labels(manifest.digest)
        )
        document = self._library.certificate(manifest.digest)
        message.certificate.CopyFrom(certificate_message(manifest, document))
        if not self._library.is_certified_for(manifest.tenant_id, manifest.digest):
            # It tells of another tenant's probe, and that there is another tenant.
            for field in ("document", "task_metric_before", "task_metric_after"):
                message.certificate.ClearField(field)
        if manifest.granted_by is None:
            message.example_prompts.extend(self._library.example_prompts(manifest))
            message.usage.CopyFrom(usage_message(self._tiers.usage(manifest)))
        return pb.AdapterStoreServiceGetAdapterResponse(
            adapter=message, aliases=map(alias_message, listed.aliases)
        )

    async def PinAdapter(
        self, request: pb.AdapterStoreServicePinAdapterRequest, context: Context
    ) -> pb.AdapterStoreServicePinAdapterResponse:
        """Pins an adapter, or lets it go."""
        listed = await self._library.set_pinned(
            self._tenant(request.claim), request.adapter, is_pinned=request.is_pinned
        )
        place = self._library.place(listed.manifest.digest)
        return pb.AdapterStoreServicePinAdapterResponse(adapter=adapter_message(listed, place))

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
        return pb.AdapterStoreServiceSetAdapterAliasResponse(alias=alias_message(alias))

    async def DeleteAdapter(
        self, request: pb.AdapterStoreServiceDeleteAdapterRequest, context: Context
    ) -> pb.AdapterStoreServiceDeleteAdapterResponse:
        """Removes an alias or an adapter."""
        tenant_id = self._tenant(request.claim)
        removal = await self._library.delete(tenant_id, request.adapter)
        if removal.digest is not None:
            for loser in (tenant_id, *removal.lost_by):
                self._warming.note_deletion(loser, removal.digest)
        return pb.AdapterStoreServiceDeleteAdapterResponse(
            removed_aliases=removal.aliases, removed_digest=removal.digest or ""
        )

    async def FetchAdapter(
        self, request: pb.FetchAdapterRequest, context: Context
    ) -> AsyncIterator[pb.FetchAdapterResponse]:
        """Gives a worker the files a ticket or a warm-up permit allows."""
        allowed = open_permission(self._sealer, request.ticket, self._boot_clock_s())
        structlog.contextvars.bind_contextvars(tenant_id=allowed.tenant_id)
        manifest = self._library.find_allowed(allowed.tenant_id, allowed.digests, request.digest)
        structlog.contextvars.bind_contextvars(adapter_digest=manifest.digest)
        remote_s = await self._arrivals.bring_to_flash(manifest)
        # What came back may have another form than what was evicted.
        manifest = self._library.find_allowed(allowed.tenant_id, allowed.digests, request.digest)
        content = manifest.content
        first = pb.FetchAdapterResponse(
            certificate=certificate_message(manifest, self._library.certificate(content.digest)),
            remote_s=remote_s,
        )
        files = (
            (pb.ADAPTER_FILE_CONFIG, content.config),
            (pb.ADAPTER_FILE_WEIGHTS, content.weights),
            (pb.ADAPTER_FILE_ENCODED, content.encoded),
            (pb.ADAPTER_FILE_HEAD, content.head),
        )
        if request.can_read_shared_directory:
            names = ["" if blob is None else blob.name for _, blob in files]
            first.location.config_blob, first.location.weights_blob = names[:2]
            first.location.encoded_blob, first.location.head_blob = names[2:]
            yield first
            return
        yield first
        for file, blob in files:
            if blob is None:
                continue
            async for data in self._library.read(blob.name):
                yield pb.FetchAdapterResponse(chunk=pb.FetchedChunk(file=file, data=data))

    async def ReportResidency(
        self, request: pb.ReportResidencyRequest, context: Context
    ) -> pb.ReportResidencyResponse:
        """Takes a worker's report."""
        report = worker_report(request, self._boot_clock_s())
        structlog.contextvars.bind_contextvars(worker=report.worker)
        deleted, is_change = self._library.report(report)
        loads = [finished_load(load) for load in request.loads]
        is_news = self._tiers.note_report(
            report,
            sequence=request.sequence,
            loads=loads,
            evictions={each.digest: each.was_wasted for each in request.evictions},
            num_slot_waits=request.num_slot_waits,
        )
        if is_news:
            self._warming.note_loads(loads)
        if is_change:
            self._note_residency_change()
        return pb.ReportResidencyResponse(
            deleted_digests=deleted,
            pinned_digests=self._library.pinned(),
            warm_ups=map(warm_up_message, self._warming.wishes(report)),
        )

    async def SetWarmUp(
        self, request: pb.AdapterStoreServiceSetWarmUpRequest, context: Context
    ) -> pb.AdapterStoreServiceSetWarmUpResponse:
        """Switches a tenant's forecasts on or off, or forgets its habits."""
        state = await self._warming.set(
            self._tenant(request.claim),
            is_enabled=request.is_enabled if request.HasField("is_enabled") else None,
            forget=request.forget,
        )
        return pb.AdapterStoreServiceSetWarmUpResponse(state=warm_up_state_message(state))

    async def GetTiers(self, request: pb.GetTiersRequest, context: Context) -> pb.GetTiersResponse:
        """Tells how often each tier was hit, and what it cost."""
        return pb.GetTiersResponse(tiers=self._tiers.statistics())

    def _registered(
        self, registration: Registration
    ) -> pb.AdapterStoreServiceRegisterAdapterResponse:
        manifest, alias = registration.manifest, registration.alias
        structlog.contextvars.bind_contextvars(
            adapter_digest=manifest.digest, is_new=registration.is_new
        )
        listed = self._library.listed(manifest)
        return pb.AdapterStoreServiceRegisterAdapterResponse(
            adapter=adapter_message(
                listed, self._library.place(manifest.digest), self._library.labels(manifest.digest)
            ),
            alias=None if alias is None else alias_message(alias),
            is_new=registration.is_new,
        )

    def _tenant(self, claim: Sealed) -> str:
        return self._claim(claim).tenant_id

    def _claim(self, sealed: Sealed) -> TenantClaim:
        claim = open_claim(self._sealer, sealed, self._boot_clock_s())
        structlog.contextvars.bind_contextvars(tenant_id=claim.tenant_id)
        return claim


def _quota(claim: TenantClaim) -> AdapterQuota | None:
    """What the claim lets its tenant have; None where it does not say."""
    if not claim.HasField("max_adapters"):
        return None
    return AdapterQuota(
        max_adapters=claim.max_adapters,
        max_bytes=claim.max_adapter_bytes if claim.HasField("max_adapter_bytes") else None,
    )
