"""The gateway's objects, wired together on one event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from edgelora.v1.admin_service_pb2_grpc import add_AdminServiceServicer_to_server
from edgelora.v1.gateway_service_pb2_grpc import add_GatewayServiceServicer_to_server
from services.chassis.healthcheck import GATEWAY_SERVICE
from services.chassis.interceptor import DeadlinePolicy, TracePolicy
from services.chassis.sealing import Sealer
from services.chassis.server import ServiceHost
from services.chassis.tls import ServerTls, warn_of_plain_addresses
from services.chassis.tracing import is_traced
from services.gateway import quota_ledger, tenant_file, usage_ledger
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.admin_servicer import AdminServicer
from services.gateway.authentication import Authentication
from services.gateway.config import GatewayConfig
from services.gateway.dashboard.sampler import Sampler
from services.gateway.deadline import Deadlines
from services.gateway.encoding.encodings import Encodings
from services.gateway.front_door import FrontDoor
from services.gateway.generation import Generations
from services.gateway.grants import Grants
from services.gateway.http.listener import HttpListener
from services.gateway.http.operator_app import operator_app
from services.gateway.http.tenant_app import tenant_app
from services.gateway.http.traced_app import TracedApp
from services.gateway.installation import Installations
from services.gateway.node_readings import NodeReadings
from services.gateway.node_status import NodeStatus
from services.gateway.quota import Quota
from services.gateway.quota_ledger import QuotaLedger
from services.gateway.readiness import Readiness
from services.gateway.servicer import GatewayServicer
from services.gateway.session_memory import SessionMemory
from services.gateway.tenant_registry import TenantRegistry
from services.gateway.upload import UploadRelay
from services.gateway.upstream import Upstream
from services.gateway.usage import Usage
from services.gateway.usage_ledger import UsageLedger

if TYPE_CHECKING:
    from services.gateway.metrics import GatewayMetrics


@asynccontextmanager
async def serving(config: GatewayConfig) -> AsyncIterator[ServiceHost]:
    """Serves both doors; yields the host of the public one. Raises OSError when one is taken."""
    config.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    registry = TenantRegistry(config.directory / tenant_file.FILE_NAME)
    ledger = QuotaLedger(config.directory / quota_ledger.FILE_NAME)
    upstream = Upstream(
        scheduler=config.scheduler_address,
        store=config.store_address,
        monitor=config.monitor_address,
    )
    deadlines = Deadlines(
        default_s=config.default_deadline_s,
        max_s=config.max_deadline_s,
        install_s=config.install_deadline_s,
    )
    policy = DeadlinePolicy(
        max_s=config.max_deadline_s,
        # A deadline of its own ends it.
        unbounded_methods=frozenset({"/edgelora.v1.GatewayService/InstallAdapter"}),
    )
    metrics = _metrics(config)
    observe = metrics.calls.note_end if metrics else None
    tls = ServerTls(config.tls) if config.tls else None
    if tls is None:
        warn_of_plain_addresses(config.address, config.http_address, config.operator_http_address)
    public = ServiceHost(
        [config.address],
        deadlines=policy,
        trust_request_id=False,
        observe=observe,
        tls=tls,
        mutual_tls_address=config.mutual_tls_address,
        # Whoever may call knows the protos; others learn nothing of them here.
        has_reflection=False,
        traces=TracePolicy(starts=True, callers=config.clients_trace),
    )
    admin = ServiceHost(
        [config.admin_address],
        trust_request_id=False,
        observe=observe,
        traces=TracePolicy(starts=True, callers="ignore"),
    )

    async def tell_readiness(is_ready: bool) -> None:
        await public.set_ready(is_ready)
        # Also where no certificate is needed to ask.
        await admin.set_ready_of(GATEWAY_SERVICE, is_ready)

    readiness = Readiness(
        upstream,
        {
            "scheduler": config.scheduler_address,
            "adapter_store": config.store_address,
            "monitor": config.monitor_address,
            **({"inference": config.inference_address} if config.inference_address else {}),
            **({"encoder": config.encoder_address} if config.encoder_address else {}),
        },
        on_change=tell_readiness,
        interval_s=config.health_interval_s,
    )
    usage_kept = UsageLedger(config.directory / usage_ledger.FILE_NAME)
    quota, usage = Quota(ledger), Usage(usage_kept.load(), power_watts=config.power_watts)
    sealer = Sealer(config.seal_key)
    node = NodeReadings(
        upstream,
        readiness,
        sealer,
        inference_address=config.inference_address,
        encoder_address=config.encoder_address,
    )
    sampler = Sampler(node, readiness)
    authentication = Authentication(registry, sealer)
    generations = Generations(
        upstream,
        quota,
        require_active=authentication.require_active,
        stall_s=config.client_stall_s,
        observers=[sampler.observe, usage.note_end, *([metrics.note_end] if metrics else [])],
    )
    encodings = Encodings(
        upstream,
        quota,
        require_active=authentication.require_active,
        observers=[
            sampler.observe_encoding,
            usage.note_end,
            *([metrics.note_encoding] if metrics else []),
        ],
    )
    if metrics:
        metrics.watch(generations, encodings, readiness, authentication)
    usage.watch(generations.used)
    grants = Grants(registry, upstream, sealer)
    installations = Installations(upstream, quota, stall_s=config.client_stall_s)
    door = FrontDoor(
        authentication=authentication,
        generations=generations,
        encodings=encodings,
        readiness=readiness,
        deadlines=deadlines,
        memory=SessionMemory(upstream),
    )
    catalogue = AdapterCatalogue(upstream)
    status = NodeStatus(node, readiness, quota, usage)
    servicer = GatewayServicer(
        door=door,
        uploads=UploadRelay(
            upstream, max_weights_bytes=config.max_upload_bytes, stall_s=config.client_stall_s
        ),
        installations=installations,
        catalogue=catalogue,
        quota=quota,
        status=status,
        deadlines=deadlines,
    )
    public.add(add_GatewayServiceServicer_to_server, servicer, GATEWAY_SERVICE)
    admin.add(
        add_AdminServiceServicer_to_server,
        AdminServicer(registry, grants, usage, upstream, sealer),
        "edgelora.v1.AdminService",
    )
    tenants = tenant_app(door, catalogue, status)
    public_app = metrics.observed(tenants, "tenants") if metrics else tenants
    if is_traced():
        public_app = TracedApp(public_app, config.clients_trace)
    listeners = [HttpListener(public_app, config.http_address, config.http_limits, tls)]
    if config.operator_key is not None:
        dashboard = operator_app(
            sampler, tenants, key=config.operator_key, hosts=config.operator_hosts
        )
        if metrics:
            dashboard = metrics.observed(dashboard, "operator")
        listeners.append(
            HttpListener(dashboard, config.operator_http_address, config.http_limits, tls)
        )
    try:
        async with (
            metrics.serving() if metrics else nullcontext(),
            upstream,
            admin.serving(),
            AsyncExitStack() as http,
        ):
            for listener in listeners:
                await http.enter_async_context(listener.serving())
            await admin.set_ready(True)
            try:
                # Entered last, so that it is the one that hears SIGTERM.
                async with public.serving(), asyncio.TaskGroup() as group:
                    watches = [
                        group.create_task(readiness.run()),
                        group.create_task(grants.run()),
                        group.create_task(usage_ledger.keep(usage, usage_kept)),
                    ]
                    if config.operator_key is not None:
                        watches.append(group.create_task(sampler.run()))
                    yield public
                    for listener in listeners:
                        listener.refuse_new()
                    for watch in watches:
                        watch.cancel()
            finally:
                await generations.drain()
                await encodings.drain()
                await installations.drain()
                with suppress(sqlite3.Error):
                    usage_kept.save(usage.totals())
    finally:
        registry.close()
        ledger.close()
        usage_kept.close()


def _metrics(config: GatewayConfig) -> GatewayMetrics | None:
    if config.metrics_address is None:
        return None
    from services.gateway.metrics import GatewayMetrics  # takes 4 MB

    return GatewayMetrics(config.metrics_address)
