"""A stand-in for the adapter store, written from its proto: it hands out files by digest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import AdapterNotFoundError, EdgeLoraError, PermissionDeniedError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_store_service_pb2_grpc import (
    AdapterStoreServiceServicer,
    add_AdapterStoreServiceServicer_to_server,
)
from services.chassis.claims import open_ticket
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost
from tests.support.adapter_files import AdapterFiles

_CHUNK_BYTES = 4096


class AdapterShelf(AdapterStoreServiceServicer):
    """Files by digest, and faults on demand. `blobs`: where shared files lie, if anywhere."""

    def __init__(self, sealer: Sealer, blobs: Path | None = None) -> None:
        self._sealer = sealer
        self._blobs = blobs
        self.files: dict[str, AdapterFiles] = {}
        self.deleted: set[str] = set()
        self.fetched: list[str] = []
        self.damage: Callable[[bytes], bytes] = lambda data: data
        self.error: EdgeLoraError | None = None
        self.gate = asyncio.Event()
        """Fetches wait for it; open unless a test closes it."""
        self.gate.set()
        self.reports: list[pb.ReportResidencyRequest] = []
        self.reported = asyncio.Event()

    def add(self, files: AdapterFiles, digest: str | None = None) -> str:
        """Registers files, under a false digest if one is given; returns the digest."""
        if digest is None:
            config = parse_adapter_config(files.config, max_rank=512)
            digest = adapter_digest(config, files.weights)
        self.files[digest] = files
        return digest

    async def FetchAdapter(self, request, context):
        ticket = open_ticket(self._sealer, request.ticket, boot_clock_s())
        if request.digest not in [adapter.digest for adapter in ticket.adapters]:
            raise PermissionDeniedError("the ticket does not list this adapter")
        self.fetched.append(request.digest)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if request.digest not in self.files:
            raise AdapterNotFoundError("there is no such adapter")
        files = self.files[request.digest]
        config, weights = files.config, self.damage(files.weights)
        if request.can_read_shared_directory and self._blobs is not None:
            (self._blobs / ("c" * 64)).write_bytes(config)
            (self._blobs / ("d" * 64)).write_bytes(weights)
            location = pb.SharedLocation(config_blob="c" * 64, weights_blob="d" * 64)
            yield pb.FetchAdapterResponse(location=location)
            return
        for file, data in ((pb.ADAPTER_FILE_CONFIG, config), (pb.ADAPTER_FILE_WEIGHTS, weights)):
            for start in range(0, len(data), _CHUNK_BYTES):
                chunk = pb.FetchedChunk(file=file, data=data[start : start + _CHUNK_BYTES])
                yield pb.FetchAdapterResponse(chunk=chunk)

    async def ReportResidency(self, request, context):
        self.reports.append(request)
        self.reported.set()
        self.reported = asyncio.Event()
        asked = [adapter.digest for adapter in request.adapters]
        return pb.ReportResidencyResponse(deleted_digests=[d for d in asked if d in self.deleted])

    async def report_where(
        self, condition: Callable[[pb.ReportResidencyRequest], bool]
    ) -> pb.ReportResidencyRequest:
        """The newest report that meets a condition; waits for it."""
        while not (self.reports and condition(self.reports[-1])):
            await self.reported.wait()
        return self.reports[-1]


def host_shelf(shelf: AdapterShelf, address: str) -> ServiceHost:
    """A host that serves the shelf."""
    host = ServiceHost([address])
    host.add(add_AdapterStoreServiceServicer_to_server, shelf, "edgelora.v1.AdapterStoreService")
    return host
