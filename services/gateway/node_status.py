"""Gathers the node at a glance. A service that does not answer leaves its part out."""

from __future__ import annotations

import asyncio

from edgelora.v1 import gateway_service_pb2 as pb
from services.gateway.node_readings import NodeReadings
from services.gateway.quota import Quota
from services.gateway.readiness import Readiness
from services.gateway.tenant import Tenant
from services.gateway.tenant_messages import duration
from services.gateway.usage import Usage


class NodeStatus:
    """Answers GetStatus."""

    def __init__(
        self, node: NodeReadings, readiness: Readiness, quota: Quota, usage: Usage
    ) -> None:
        self._node = node
        self._readiness = readiness
        self._quota = quota
        self._usage = usage

    async def get(self, tenant: Tenant) -> pb.GetStatusResponse:
        """The node, and the tenant's own usage; nothing of other tenants."""
        monitored, queues, tiers = await asyncio.gather(
            self._node.monitored(), self._node.queues(), self._node.tiers()
        )
        model, encoder = self._readiness.model, self._readiness.encoder
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
            usage=self.usage(tenant),
            encoder=encoder.name if encoder else "",
            encoder_digest=encoder.digest if encoder else "",
        )

    def usage(self, tenant: Tenant) -> pb.TenantUsage:
        """What the tenant used, and what it may."""
        used, quotas = self._usage.of(tenant.tenant_id), tenant.quotas
        return pb.TenantUsage(
            tenant_id=tenant.tenant_id,
            num_requests=used.num_requests,
            num_prompt_tokens=used.num_prompt_tokens,
            num_output_tokens=used.num_output_tokens,
            num_running=self._quota.num_running(tenant.tenant_id),
            max_concurrent_requests=quotas.max_concurrent_requests,
            max_tokens_per_minute=quotas.max_tokens_per_minute,
            engine_time=duration(used.engine_s),
            energy_joules=self._usage.energy_joules(used),
            max_requests_per_minute=quotas.max_requests_per_minute,
            max_adapters=quotas.max_adapters,
            max_adapter_bytes=quotas.max_adapter_bytes,
        )
