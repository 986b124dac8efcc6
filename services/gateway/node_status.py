"""Gathers the node at a glance. A service that does not answer leaves its part out."""

from __future__ import annotations

import asyncio

from edgelora.errors import EdgeLoraError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import TierStatistics
from edgelora.v1.adapter_store_service_pb2 import GetTiersRequest
from edgelora.v1.monitor_service_pb2 import GetSnapshotRequest, GetSnapshotResponse
from edgelora.v1.scheduler_service_pb2 import GetQueuesRequest, GetQueuesResponse
from services.chassis.channel import call_metadata
from services.gateway.quota import Quota
from services.gateway.readiness import Readiness
from services.gateway.tenant_registry import Tenant
from services.gateway.upstream import Upstream, errors_of
from services.gateway.usage import UsageCounters

_ANSWER_S = 1.0


class NodeStatus:
    """Answers GetStatus."""

    def __init__(
        self, upstream: Upstream, readiness: Readiness, quota: Quota, usage: UsageCounters
    ) -> None:
        self._upstream = upstream
        self._readiness = readiness
        self._quota = quota
        self._usage = usage

    async def get(self, tenant: Tenant) -> pb.GetStatusResponse:
        """The node, and the tenant's own usage; nothing of other tenants."""
        monitored, queues, tiers = await asyncio.gather(
            self._monitored(), self._queues(), self._tiers()
        )
        model = self._readiness.model
        counters = self._usage.of(tenant.tenant_id)
        return pb.GetStatusResponse(
            model=model.name if model else "",
            model_digest=model.digest if model else "",
            max_context_tokens=model.max_context_tokens if model else 0,
            backend=model.backend if model else "",
            kv_cache_dtype=model.kv_cache_dtype if model else "",
            services=[
                pb.ServiceStatus(name=name, is_ready=is_ready)
                for name, is_ready in self._readiness.services.items()
            ],
            device=monitored.snapshot if monitored else None,
            pressure=monitored.pressure if monitored else None,
            queues=queues.queues if queues else (),
            restrictions=queues.restrictions if queues else (),
            tiers=tiers,
            usage=pb.TenantUsage(
                tenant_id=tenant.tenant_id,
                num_requests=counters.num_requests,
                num_prompt_tokens=counters.num_prompt_tokens,
                num_output_tokens=counters.num_output_tokens,
                num_running=self._quota.num_running(tenant.tenant_id),
                max_concurrent_requests=tenant.max_concurrent_requests,
                max_tokens_per_minute=tenant.max_tokens_per_minute,
            ),
        )

    async def _monitored(self) -> GetSnapshotResponse | None:
        if not self._readiness.services["monitor"]:
            return None
        try:
            monitor = await self._upstream.monitor()
            with errors_of("monitor"):
                response: GetSnapshotResponse = await monitor.GetSnapshot(
                    GetSnapshotRequest(), timeout=_ANSWER_S, metadata=call_metadata()
                )
        except EdgeLoraError:
            return None
        return response

    async def _queues(self) -> GetQueuesResponse | None:
        if not self._readiness.services["scheduler"]:
            return None
        try:
            scheduler = await self._upstream.scheduler()
            with errors_of("scheduler"):
                response: GetQueuesResponse = await scheduler.GetQueues(
                    GetQueuesRequest(), timeout=_ANSWER_S, metadata=call_metadata()
                )
        except EdgeLoraError:
            return None
        return response

    async def _tiers(self) -> TierStatistics | None:
        if not self._readiness.services["adapter_store"]:
            return None
        try:
            store = await self._upstream.store()
            with errors_of("adapter store"):
                response = await store.GetTiers(
                    GetTiersRequest(), timeout=_ANSWER_S, metadata=call_metadata()
                )
        except EdgeLoraError:
            return None
        tiers: TierStatistics = response.tiers
        return tiers
