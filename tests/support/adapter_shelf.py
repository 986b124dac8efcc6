"""A stand-in for the adapter store, written from its proto: it hands out files by digest."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import (
    AdapterNotFoundError,
    EdgeLoraError,
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterCertificate
from edgelora.v1.adapter_store_service_pb2_grpc import (
    AdapterStoreServiceServicer,
    add_AdapterStoreServiceServicer_to_server,
)
from edgelora.v1.ticket_pb2 import Sealed, WarmUpPermit
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
        self.encoded: dict[str, bytes] = {}
        """Encoded forms by digest; those are served so."""
        self.certificates: dict[str, AdapterCertificate] = {}
        self.warm_ups: list[pb.WarmUp] = []
        self.pinned: list[str] = []
        self.lost_reports = 0
        """So many of the next reports of loads are taken, and their answers lost."""
        self.failures = 0
        """So many of the next fetches fail as if the store were away."""
        self._has_fetched = asyncio.Event()
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
        if request.digest not in self._allowed(request.ticket):
            raise PermissionDeniedError("the ticket does not list this adapter")
        self.fetched.append(request.digest)
        self._has_fetched.set()
        self._has_fetched = asyncio.Event()
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ServiceUnavailableError("away")
        if self.error is not None:
            raise self.error
        certificate = self.certificates.get(request.digest)
        if request.digest in self.encoded:
            data = self.damage(self.encoded[request.digest])
            name = hashlib.sha256(self.encoded[request.digest]).hexdigest()
            document = json.dumps({"encoding": {"sha256": name}})
            certificate = certificate or AdapterCertificate(document=document)
            if request.can_read_shared_directory and self._blobs is not None:
                (self._blobs / name).write_bytes(data)
                location = pb.SharedLocation(encoded_blob=name)
                yield pb.FetchAdapterResponse(location=location, certificate=certificate)
                return
            for start in range(0, len(data), _CHUNK_BYTES):
                chunk = pb.FetchedChunk(
                    file=pb.ADAPTER_FILE_ENCODED, data=data[start : start + _CHUNK_BYTES]
                )
                yield pb.FetchAdapterResponse(
                    chunk=chunk, certificate=None if start else certificate
                )
            return
        if request.digest not in self.files:
            raise AdapterNotFoundError("there is no such adapter")
        files = self.files[request.digest]
        config, weights = files.config, self.damage(files.weights)
        if request.can_read_shared_directory and self._blobs is not None:
            location = pb.SharedLocation(
                config_blob=self._put(config),
                weights_blob=self._put(weights),
                head_blob=self._put(files.head) if files.head else "",
            )
            yield pb.FetchAdapterResponse(location=location, certificate=certificate)
            return
        parts = (
            (pb.ADAPTER_FILE_CONFIG, config),
            (pb.ADAPTER_FILE_WEIGHTS, weights),
            (pb.ADAPTER_FILE_HEAD, files.head),
        )
        for file, data in parts:
            for start in range(0, len(data), _CHUNK_BYTES):
                chunk = pb.FetchedChunk(file=file, data=data[start : start + _CHUNK_BYTES])
                yield pb.FetchAdapterResponse(chunk=chunk, certificate=certificate)

    def _put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        if not (self._blobs / name).exists():  # somebody may be reading it
            (self._blobs / name).write_bytes(data)
        return name

    def _allowed(self, sealed: Sealed) -> list[str]:
        try:
            ticket = open_ticket(self._sealer, sealed, boot_clock_s())
        except UnauthenticatedError:
            return [self._sealer.open(sealed, WarmUpPermit).digest]
        return [adapter.digest for adapter in ticket.adapters]

    async def ReportResidency(self, request, context):
        self.reports.append(request)
        self.reported.set()
        self.reported = asyncio.Event()
        if self.lost_reports and request.loads:
            self.lost_reports -= 1
            raise ServiceUnavailableError("the answer is lost")
        asked = [adapter.digest for adapter in request.adapters]
        warm_ups, self.warm_ups = self.warm_ups, []
        return pb.ReportResidencyResponse(
            deleted_digests=[d for d in asked if d in self.deleted],
            pinned_digests=self.pinned,
            warm_ups=warm_ups,
        )

    async def fetch_of(self, digest: str) -> None:
        """Waits until a worker has asked for an adapter."""
        while digest not in self.fetched:
            await self._has_fetched.wait()

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
