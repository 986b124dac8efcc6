"""Fetches an adapter from the store, and trusts nothing but its digest."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from edgelora.adapter_format import (
    MAX_CONFIG_BYTES,
    AdapterWeights,
    adapter_digest,
    parse_adapter_config,
    read_adapter,
)
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import DataCorruptError, EdgeLoraError
from edgelora.v1.adapter_pb2 import AdapterCertificate
from edgelora.v1.adapter_store_service_pb2 import AdapterFile, FetchAdapterRequest, SharedLocation
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.base_model import BaseModel
from services.chassis.channel import call_metadata, translate_errors
from services.inference.backends.base import EncodedAdapter, LoadableAdapter
from services.inference.certificates import encoded_file_hash, to_reference
from services.inference.encoded_blobs import check_encoded
from services.inference.engine.fetched_adapter import FetchCost, FetchedAdapter
from services.inference.low_priority import lower_thread_priority
from services.inference.shared_blobs import map_blob

_HEADER_ROOM_BYTES = 4 * 2**20


@dataclass(slots=True)
class _Received:
    """What the store has sent: where the files are, or the files."""

    location: SharedLocation | None = None
    certificate: AdapterCertificate | None = None
    remote_s: float = 0.0
    files: dict[int, Buffer] = field(default_factory=dict)
    """By AdapterFile."""


class AdapterSource:
    """Maps the files of the shared directory, or takes the stream, and checks them whole."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        model: BaseModel,
        *,
        max_rank: int,
        timeout_s: float,
        shared_directory: Path | None = None,
    ) -> None:
        self._stub = AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._model = model
        self._max_rank = max_rank
        self._timeout_s = timeout_s
        self._shared_directory = shared_directory
        features = sum(sum(shape) for shape in model.targets.values())
        max_weights_bytes = model.num_layers * features * max_rank * 4 + _HEADER_ROOM_BYTES
        self._max_bytes = {
            AdapterFile.ADAPTER_FILE_CONFIG: MAX_CONFIG_BYTES,
            AdapterFile.ADAPTER_FILE_WEIGHTS: max_weights_bytes,
            AdapterFile.ADAPTER_FILE_ENCODED: max_weights_bytes,
        }
        self._urgent_thread, self._patient_thread = (
            ThreadPoolExecutor(1, thread_name_prefix=name, initializer=lower_thread_priority)
            for name in ("adapter-reader", "patient-reader")
        )

    async def fetch(
        self, digest: str, ticket: Sealed, *, is_urgent: bool = False
    ) -> FetchedAdapter:
        """Returns an adapter, verified against its digest and the base model.

        `ticket` may be the permit of a warm-up. `is_urgent`: it is not read behind those that are
        not. Raises DataCorruptError when the bytes are not what
        the digest says, AdapterRejectedError or AdapterIncompatibleError when they can not be
        served, and what the store raises.
        """
        started_s = time.perf_counter()
        received = await self._receive(digest, ticket)
        fetch_s = time.perf_counter() - started_s - received.remote_s
        loop = asyncio.get_running_loop()
        thread = self._urgent_thread if is_urgent else self._patient_thread
        return await loop.run_in_executor(thread, self._check, digest, received, max(0.0, fetch_s))

    def close(self) -> None:
        """Ends the reader threads."""
        for thread in (self._urgent_thread, self._patient_thread):
            thread.shutdown(wait=False, cancel_futures=True)

    async def _receive(self, digest: str, ticket: Sealed) -> _Received:
        request = FetchAdapterRequest(
            ticket=ticket,
            digest=digest,
            can_read_shared_directory=self._shared_directory is not None,
        )
        received = _Received()
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

    def _check(self, digest: str, received: _Received, fetch_s: float) -> FetchedAdapter:
        started_s = time.perf_counter()
        if received.location is not None:
            received.files = self._map(received.location)
        mapped_s = time.perf_counter()
        files = received.files
        encoded = files.get(AdapterFile.ADAPTER_FILE_ENCODED)
        adapter: LoadableAdapter
        form = ""
        if encoded is None:
            adapter = self._assemble(digest, files)
        else:
            location, certificate = received.location, received.certificate
            form = location.encoded_blob if location else encoded_file_hash(certificate)
            check_encoded(encoded, file_hash=form, digest=digest, base_digest=self._model.digest)
            adapter = EncodedAdapter(encoded)
        return FetchedAdapter(
            adapter,
            to_reference(received.certificate, self._model.vocab_size),
            FetchCost(
                bytes_read=sum(map(len, files.values())),
                remote_s=received.remote_s,
                fetch_s=fetch_s + mapped_s - started_s,
                check_s=time.perf_counter() - mapped_s,
            ),
            form,
        )

    def _map(self, location: SharedLocation) -> dict[int, Buffer]:
        if self._shared_directory is None:
            raise DataCorruptError("the store named a file where none can be read")
        names = {AdapterFile.ADAPTER_FILE_ENCODED: location.encoded_blob}
        if not location.encoded_blob:
            names = {
                AdapterFile.ADAPTER_FILE_CONFIG: location.config_blob,
                AdapterFile.ADAPTER_FILE_WEIGHTS: location.weights_blob,
            }
        return {
            file: map_blob(self._shared_directory, name, self._max_bytes[file])
            for file, name in names.items()
        }

    def _assemble(self, digest: str, files: dict[int, Buffer]) -> AdapterWeights:
        config = bytes(files.get(AdapterFile.ADAPTER_FILE_CONFIG, b""))
        weights = files.get(AdapterFile.ADAPTER_FILE_WEIGHTS, b"")
        # The digest first: what was damaged on its way is not worth a better message.
        try:
            parsed = parse_adapter_config(config, max_rank=self._max_rank)
        except EdgeLoraError:
            if not config or not len(weights):
                raise DataCorruptError("the store sent an incomplete adapter") from None
            raise
        if adapter_digest(parsed, weights) != digest:
            raise DataCorruptError(
                "the adapter's bytes do not match its digest (checksum): register it again"
            )
        _, assembled = read_adapter(
            config,
            weights,
            targets=self._model.targets,
            num_layers=self._model.num_layers,
            max_rank=self._max_rank,
        )
        return assembled
