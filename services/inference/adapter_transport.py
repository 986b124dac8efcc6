"""Brings the files of an adapter from the store: mapped from its directory, or streamed.

What they are worth is for the reader to say, which runs in a thread of its own beside the engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc

from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import DataCorruptError
from edgelora.v1.adapter_pb2 import AdapterCertificate
from edgelora.v1.adapter_store_service_pb2 import AdapterFile, FetchAdapterRequest, SharedLocation
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata, translate_errors
from services.inference.low_priority import lower_thread_priority
from services.inference.shared_blobs import map_blob

AdapterT = TypeVar("AdapterT")


@dataclass(slots=True)
class ReceivedFiles:
    """What the store has sent, and nobody has looked at."""

    location: SharedLocation | None = None
    """Where the files lie, for those that were mapped."""
    certificate: AdapterCertificate | None = None
    remote_s: float = 0.0
    """Seconds the store spent bringing it from its remote."""
    fetch_s: float = 0.0
    """Seconds asking the store, and mapping or receiving."""
    files: dict[int, Buffer] = field(default_factory=dict)
    """By AdapterFile."""

    @property
    def num_bytes(self) -> int:
        """Of all files together."""
        return sum(map(len, self.files.values()))


class AdapterTransport:
    """Fetches with a ticket, and has what came read in a thread."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        max_bytes: Mapping[int, int],
        *,
        timeout_s: float,
        shared_directory: Path | None = None,
    ) -> None:
        """`max_bytes`: the most each AdapterFile may have; others are not taken."""
        self._stub = AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._shared_directory = shared_directory
        self._urgent_thread, self._patient_thread = (
            ThreadPoolExecutor(1, thread_name_prefix=name, initializer=lower_thread_priority)
            for name in ("adapter-reader", "patient-reader")
        )

    async def fetch(
        self,
        digest: str,
        ticket: Sealed,
        read: Callable[[str, ReceivedFiles], AdapterT],
        *,
        is_urgent: bool,
    ) -> AdapterT:
        """Returns what `read` makes of the digest and its files.

        `is_urgent`: it is not read behind those that are not. Raises DataCorruptError for files
        that can not be an adapter's, and what the store and `read` raise.
        """
        started_s = time.perf_counter()
        received = await self._receive(digest, ticket)
        received.fetch_s = max(0.0, time.perf_counter() - started_s - received.remote_s)
        loop = asyncio.get_running_loop()
        thread = self._urgent_thread if is_urgent else self._patient_thread
        return await loop.run_in_executor(thread, self._map_and_read, digest, received, read)

    def close(self) -> None:
        """Ends the reader threads."""
        for thread in (self._urgent_thread, self._patient_thread):
            thread.shutdown(wait=False, cancel_futures=True)

    async def _receive(self, digest: str, ticket: Sealed) -> ReceivedFiles:
        request = FetchAdapterRequest(
            ticket=ticket,
            digest=digest,
            can_read_shared_directory=self._shared_directory is not None,
        )
        received = ReceivedFiles()
        parts: dict[int, bytearray] = {}
        call = self._stub.FetchAdapter(request, timeout=self._timeout_s, metadata=call_metadata())
        try:
            with translate_errors():
                async for response in call:
                    if response.HasField("certificate"):
                        received.certificate = response.certificate
                    received.remote_s += response.remote_s
                    if response.HasField("location"):
                        received.location = response.location
                        continue
                    chunk = response.chunk
                    part = parts.setdefault(chunk.file, bytearray())
                    if len(part) + len(chunk.data) > self._max_bytes.get(chunk.file, 0):
                        raise DataCorruptError("the store sent more than an adapter can hold")
                    part += chunk.data
        finally:
            call.cancel()
        received.files.update(parts)
        return received

    def _map_and_read(
        self,
        digest: str,
        received: ReceivedFiles,
        read: Callable[[str, ReceivedFiles], AdapterT],
    ) -> AdapterT:
        started_s = time.perf_counter()
        if received.location is not None:
            received.files = self._map(received.location)
        received.fetch_s += time.perf_counter() - started_s
        return read(digest, received)

    def _map(self, location: SharedLocation) -> dict[int, Buffer]:
        if self._shared_directory is None:
            raise DataCorruptError("the store named a file where none can be read")
        names = {AdapterFile.ADAPTER_FILE_ENCODED: location.encoded_blob}
        if not location.encoded_blob:
            names = {
                AdapterFile.ADAPTER_FILE_CONFIG: location.config_blob,
                AdapterFile.ADAPTER_FILE_WEIGHTS: location.weights_blob,
            }
            if location.head_blob:
                names[AdapterFile.ADAPTER_FILE_HEAD] = location.head_blob
        return {
            file: map_blob(self._shared_directory, name, self._max_bytes.get(file, 0))
            for file, name in names.items()
        }
