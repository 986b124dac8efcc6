"""Asks the services behind the gateway how they are. What does not answer is unknown: None."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from google.protobuf.message import Message

from edgelora.errors import EdgeLoraError
from edgelora.v1.adapter_pb2 import TierStatistics
from edgelora.v1.adapter_store_service_pb2 import (
    GetTiersRequest,
    GetTiersResponse,
    ListLibraryRequest,
    ListLibraryResponse,
)
from edgelora.v1.encoder_service_pb2 import GetEncoderStatusRequest, GetEncoderStatusResponse
from edgelora.v1.inference_service_pb2 import GetEngineStatusRequest, GetEngineStatusResponse
from edgelora.v1.monitor_service_pb2 import GetSnapshotRequest, GetSnapshotResponse
from edgelora.v1.scheduler_service_pb2 import GetQueuesRequest, GetQueuesResponse
from edgelora.v1.ticket_pb2 import OperatorClaim
from services.chassis.channel import call_metadata
from services.chassis.claims import seal_operator_claim
from services.chassis.sealing import Sealer, boot_clock_s
from services.gateway.readiness import Readiness
from services.gateway.upstream import Upstream, errors_of

_ANSWER_S = 1.0
_CLAIM_S = 5.0


class NodeReadings:
    """Each method is one look at one service, and never raises EdgeLoraError."""

    def __init__(
        self,
        upstream: Upstream,
        readiness: Readiness,
        sealer: Sealer,
        *,
        inference_address: str | None,
        encoder_address: str | None,
    ) -> None:
        """Addresses are None where the node has no such worker."""
        self._upstream = upstream
        self._readiness = readiness
        self._sealer = sealer
        self._inference_address = inference_address
        self._encoder_address = encoder_address

    async def monitored(self) -> GetSnapshotResponse | None:
        """The device's newest sample and its pressure."""
        response: GetSnapshotResponse | None = await self._ask(
            "monitor", self._upstream.monitor, "GetSnapshot", GetSnapshotRequest()
        )
        return response

    async def queues(self) -> GetQueuesResponse | None:
        """What waits and runs, and what the scheduler restricts."""
        response: GetQueuesResponse | None = await self._ask(
            "scheduler", self._upstream.scheduler, "GetQueues", GetQueuesRequest()
        )
        return response

    async def tiers(self) -> TierStatistics | None:
        """How often each tier was hit, and what it cost."""
        response: GetTiersResponse | None = await self._ask(
            "adapter_store", self._upstream.store, "GetTiers", GetTiersRequest()
        )
        return response.tiers if response else None

    async def engine(self) -> GetEngineStatusResponse | None:
        """What the worker's engine holds and does."""
        response: GetEngineStatusResponse | None = await self._ask(
            "inference", self._worker, "GetEngineStatus", GetEngineStatusRequest()
        )
        return response

    async def encoder(self) -> GetEncoderStatusResponse | None:
        """What the encoder holds, and what it has done."""
        response: GetEncoderStatusResponse | None = await self._ask(
            "encoder", self._encoder, "GetEncoderStatus", GetEncoderStatusRequest()
        )
        return response

    async def library(self) -> ListLibraryResponse | None:
        """The most used adapters of all tenants. Only for the operator's eyes."""
        claim = OperatorClaim(expires_at_boot_s=boot_clock_s() + _CLAIM_S, request_id=uuid4().hex)
        request = ListLibraryRequest(claim=seal_operator_claim(self._sealer, claim))
        response: ListLibraryResponse | None = await self._ask(
            "adapter_store", self._upstream.store, "ListLibrary", request
        )
        return response

    async def _worker(self) -> Any:
        return await self._upstream.worker(self._inference_address or "")

    async def _encoder(self) -> Any:
        return await self._upstream.encoder(self._encoder_address or "")

    async def _ask(
        self, service: str, connect: Callable[[], Awaitable[Any]], method: str, request: Message
    ) -> Any:
        if not self._readiness.services.get(service):
            return None
        try:
            stub = await connect()
            with errors_of(service):
                return await getattr(stub, method)(
                    request, timeout=_ANSWER_S, metadata=call_metadata()
                )
        except EdgeLoraError:
            return None
