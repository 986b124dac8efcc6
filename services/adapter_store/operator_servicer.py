"""What the operator asks the store: every call shows the operator's sealed claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from edgelora.errors import InvalidRequestError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1 import adapter_store_service_pb2_grpc as rpc
from edgelora.v1.ticket_pb2 import Sealed
from services.adapter_store.library_head import MAX_ENTRIES
from services.adapter_store.messages import adapter_message, grant_message
from services.adapter_store.store import Store
from services.chassis.claims import open_operator_claim
from services.chassis.sealing import Sealer

Context = grpc.aio.ServicerContext[Any, Any]


class OperatorServicer(rpc.AdapterStoreServiceServicer):
    """The part of AdapterStoreServicer that no tenant reaches."""

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        boot_clock_s: Callable[[], float],
    ) -> None:
        self._library = store.library
        self._head = store.head
        self._warming = store.warming
        self._sealer = sealer
        self._boot_clock_s = boot_clock_s

    async def ListLibrary(
        self, request: pb.ListLibraryRequest, context: Context
    ) -> pb.ListLibraryResponse:
        """Lists the most used adapters of all tenants."""
        self._check_operator(request.claim)
        if request.max_entries > MAX_ENTRIES:
            raise InvalidRequestError(
                f"max_entries must be 1 to {MAX_ENTRIES}", field="max_entries"
            )
        entries = [
            pb.LibraryEntry(
                digest=entry.adapter.manifest.digest,
                names=entry.names,
                num_tenants=entry.num_tenants,
                adapter=adapter_message(
                    entry.adapter, self._library.place(entry.adapter.manifest.digest)
                ),
            )
            for entry in self._head.entries(request.max_entries or MAX_ENTRIES)
        ]
        return pb.ListLibraryResponse(entries=entries, num_adapters=self._head.num_adapters())

    async def GrantAdapter(
        self, request: pb.AdapterStoreServiceGrantAdapterRequest, context: Context
    ) -> pb.AdapterStoreServiceGrantAdapterResponse:
        """Lets a tenant use an adapter of another one."""
        self._check_operator(request.claim)
        grant = await self._library.grant(
            request.owner_tenant_id, request.adapter, request.tenant_id, request.alias or None
        )
        return pb.AdapterStoreServiceGrantAdapterResponse(grant=grant_message(grant))

    async def WithdrawAdapter(
        self, request: pb.AdapterStoreServiceWithdrawAdapterRequest, context: Context
    ) -> pb.AdapterStoreServiceWithdrawAdapterResponse:
        """Ends a grant."""
        self._check_operator(request.claim)
        grant = await self._library.withdraw(request.tenant_id, request.digest)
        self._warming.note_deletion(grant.tenant_id, grant.digest)
        return pb.AdapterStoreServiceWithdrawAdapterResponse()

    async def ListGrants(
        self, request: pb.AdapterStoreServiceListGrantsRequest, context: Context
    ) -> pb.AdapterStoreServiceListGrantsResponse:
        """Lists the grants of a tenant, or of all."""
        self._check_operator(request.claim)
        grants = self._library.grants(request.tenant_id or None)
        return pb.AdapterStoreServiceListGrantsResponse(grants=map(grant_message, grants))

    def _check_operator(self, claim: Sealed) -> None:
        """Raises UnauthenticatedError for anybody else."""
        open_operator_claim(self._sealer, claim, self._boot_clock_s())
