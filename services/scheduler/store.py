"""Asks the adapter store what a tenant's selections stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from edgelora.errors import InternalError, ServiceUnavailableError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1 import adapter_store_service_pb2_grpc as rpc
from edgelora.v1.adapter_pb2 import AdapterSelection, ResolvedAdapter
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Authorised adapters in the order asked, and who holds how many of them."""

    adapters: Sequence[ResolvedAdapter] = ()
    num_resident: Mapping[str, int] = field(default_factory=dict)


class AdapterStore:
    """The adapter store behind its channel."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float) -> None:
        self._stub = rpc.AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._timeout_s = timeout_s

    async def resolve(
        self,
        claim: Sealed,
        selections: Sequence[AdapterSelection],
        user: str,
        *,
        task: Task,
        max_rank: int = 0,
    ) -> Resolution:
        """Resolves selections under the claim's tenant; the base model alone needs no store.

        Adapters of another `task` are refused by the store.
        `user` says who of the tenant's people asks; the store forecasts from it, nothing else does.
        Above 0, `max_rank` asks for the version of the highest rank up to it of each adapter that
        has a higher one, where the tenant has such a version.

        Raises what the store raised (AdapterNotFoundError among them), ServiceUnavailableError
        when it does not answer.
        """
        if not selections:
            return Resolution()
        request = pb.ResolveAdaptersRequest(
            claim=claim, adapters=selections, user=user, max_rank=max_rank, task=task
        )
        response = await self._call(self._stub.ResolveAdapters, request)
        if len(response.adapters) != len(selections):
            raise InternalError("the adapter store resolved another number of adapters than asked")
        return Resolution(
            adapters=response.adapters,
            num_resident={entry.worker: entry.num_resident for entry in response.residencies},
        )

    async def list_candidates(self, claim: Sealed, version: str) -> pb.ListCandidatesResponse:
        """Tells what the router may choose from under the claim's tenant; nothing of others.

        The candidates are left out while `version`, of an earlier response, is still theirs.

        Raises what the store raised, ServiceUnavailableError when it does not answer.
        """
        request = pb.ListCandidatesRequest(claim=claim, version=version)
        response: pb.ListCandidatesResponse = await self._call(self._stub.ListCandidates, request)
        return response

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            with translate_errors():
                return await method(request, timeout=self._timeout_s, metadata=call_metadata())
        except ServiceUnavailableError as error:
            raise ServiceUnavailableError(
                "the adapter store does not answer: try again",
                retry_after_s=error.retry_after_s or self._timeout_s,
            ) from error
