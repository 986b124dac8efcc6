"""Asks the adapter store what a tenant asked: the fields are checked, the claim says for whom."""

from __future__ import annotations

from typing import Any

from edgelora.v1 import adapter_store_service_pb2 as store_pb
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata
from services.gateway import validation
from services.gateway.upstream import Upstream, errors_of

_STORE = "adapter store"
_STORE_S = 10.0


class AdapterCatalogue:
    """A tenant's adapters and what is learnt of its habits, as the store keeps them.

    Every method raises InvalidRequestError for a bad field, ServiceUnavailableError when the store
    does not answer, and what the store raises.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def list(self, request: pb.ListAdaptersRequest, claim: Sealed) -> pb.ListAdaptersResponse:
        """One page of the tenant's adapters."""
        validation.check_list(request)
        found = await self._ask(
            "ListAdapters",
            store_pb.AdapterStoreServiceListAdaptersRequest(
                claim=claim, page_size=request.page_size, page_token=request.page_token
            ),
        )
        return pb.ListAdaptersResponse(
            adapters=found.adapters, aliases=found.aliases, next_page_token=found.next_page_token
        )

    async def get(self, request: pb.GetAdapterRequest, claim: Sealed) -> pb.GetAdapterResponse:
        """Everything about one adapter."""
        validation.check_adapter_name(request.adapter, "adapter")
        found = await self._ask(
            "GetAdapter",
            store_pb.AdapterStoreServiceGetAdapterRequest(claim=claim, adapter=request.adapter),
        )
        return pb.GetAdapterResponse(adapter=found.adapter, aliases=found.aliases)

    async def pin(self, request: pb.PinAdapterRequest, claim: Sealed) -> pb.PinAdapterResponse:
        """Pins an adapter, or lets it go."""
        validation.check_adapter_name(request.adapter, "adapter")
        pinned = await self._ask(
            "PinAdapter",
            store_pb.AdapterStoreServicePinAdapterRequest(
                claim=claim, adapter=request.adapter, is_pinned=request.is_pinned
            ),
        )
        return pb.PinAdapterResponse(adapter=pinned.adapter)

    async def set_warm_up(
        self, request: pb.SetWarmUpRequest, claim: Sealed
    ) -> pb.SetWarmUpResponse:
        """Switches the forecasts, forgets what was learnt, or only asks."""
        wanted = store_pb.AdapterStoreServiceSetWarmUpRequest(claim=claim, forget=request.forget)
        if request.HasField("is_enabled"):
            wanted.is_enabled = request.is_enabled
        answer = await self._ask("SetWarmUp", wanted)
        return pb.SetWarmUpResponse(state=answer.state)

    async def set_alias(
        self, request: pb.SetAdapterAliasRequest, claim: Sealed
    ) -> pb.SetAdapterAliasResponse:
        """Points a name to a digest."""
        validation.check_set_alias(request)
        wanted = store_pb.AdapterStoreServiceSetAdapterAliasRequest(
            claim=claim, name=request.name, digest=request.digest
        )
        if request.HasField("expected_generation"):
            wanted.expected_generation = request.expected_generation
        stored = await self._ask("SetAdapterAlias", wanted)
        return pb.SetAdapterAliasResponse(alias=stored.alias)

    async def delete(
        self, request: pb.DeleteAdapterRequest, claim: Sealed
    ) -> pb.DeleteAdapterResponse:
        """Removes an alias, or a digest with all its aliases."""
        validation.check_adapter_name(request.adapter, "adapter")
        removed = await self._ask(
            "DeleteAdapter",
            store_pb.AdapterStoreServiceDeleteAdapterRequest(claim=claim, adapter=request.adapter),
        )
        return pb.DeleteAdapterResponse(
            removed_aliases=removed.removed_aliases, removed_digest=removed.removed_digest
        )

    async def _ask(self, method: str, request: Any) -> Any:
        store = await self._upstream.store()
        with errors_of(_STORE):
            return await getattr(store, method)(request, timeout=_STORE_S, metadata=call_metadata())
