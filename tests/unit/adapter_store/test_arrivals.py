"""What is brought from remotes again: for one tenant at a time, and once for all who ask."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from edgelora.errors import ServiceUnavailableError
from services.adapter_store.arrivals import Arrivals, Package
from services.adapter_store.registry.manifest import AdapterContent, AdapterManifest, ServingForm
from services.adapter_store.upload import AdapterFiles
from services.adapter_store.usage import UsageLedger

DIGEST = "sha256:" + "1" * 64
FILES = AdapterFiles(
    directory=Path("/nowhere"),
    config=Path("/nowhere/config"),
    weights=Path("/nowhere/weights"),
    probe=None,
    card=None,
    weights_bytes=1,
    weights_sha256=b"",
)


class GatedPackages:
    """Remotes that wait for a gate; those of tenant `unlucky` are then away."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.asked = []
        self.has_asked = asyncio.Semaphore(0)

    @asynccontextmanager
    async def bring(self, tenant_id, reference, on_progress):
        self.asked.append((tenant_id, reference))
        self.has_asked.release()
        await self.gate.wait()
        if tenant_id == "unlucky":
            raise ServiceUnavailableError("away")
        yield Package(reference=reference, files=FILES, received_bytes=1)


class RestoringDesk:
    def __init__(self):
        self.restored = []

    def lasting_form(self, content):
        return None

    async def restore(self, tenant_id, content, files):
        self.restored.append(tenant_id)


def evicted(tenant_id):
    content = AdapterContent(
        digest=DIGEST,
        base_digest="sha256:" + "0" * 64,
        rank=1,
        alpha=1.0,
        target_modules=("q_proj",),
        num_parameters=1,
        weights_bytes=1,
        form=ServingForm.EXACT,
        config=None,
        weights=None,
        encoded=None,
        certificate_digest=None,
        is_on_flash=False,
    )
    return AdapterManifest(
        tenant_id=tenant_id,
        content=content,
        registered_at_s=0.0,
        description="",
        package=f"{tenant_id}/x@sha256:0",
        parent_digest=None,
        is_pinned=False,
    )


def restoring(packages, desk):
    return Arrivals(
        reserved_names=("base",),
        uploads=None,
        packages=packages,
        flash=None,
        desk=desk,
        ledger=UsageLedger({}),
        clock_s=lambda: 0.0,
    )


async def test_remote_of_one_tenant_that_is_away_costs_no_other_T34():
    packages, desk = GatedPackages(), RestoringDesk()
    arrivals = restoring(packages, desk)
    waiting = [
        asyncio.create_task(arrivals.bring_to_flash(evicted(tenant_id)))
        for tenant_id in ("unlucky", "lucky", "lucky")
    ]
    for _ in range(2):
        await packages.has_asked.acquire()
    packages.gate.set()
    failed, *brought = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(failed, ServiceUnavailableError)
    assert brought == [0.0, 0.0]
    assert desk.restored == ["lucky"]
    assert sorted(packages.asked) == [
        ("lucky", "lucky/x@sha256:0"),
        ("unlucky", "unlucky/x@sha256:0"),
    ]
    await arrivals.close()


async def test_who_stops_waiting_stops_the_transfer_for_nobody():
    packages, desk = GatedPackages(), RestoringDesk()
    arrivals = restoring(packages, desk)
    waiting = [asyncio.create_task(arrivals.bring_to_flash(evicted("lucky"))) for _ in range(2)]
    await packages.has_asked.acquire()
    waiting[0].cancel()
    packages.gate.set()
    gone, brought = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(gone, asyncio.CancelledError)
    assert brought == 0.0
    assert len(packages.asked) == len(desk.restored) == 1
    await arrivals.close()
