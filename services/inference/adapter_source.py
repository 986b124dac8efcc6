"""Fetches an adapter from the store, and trusts nothing but its digest."""

from __future__ import annotations

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from edgelora.adapter_format import (
    MAX_CONFIG_BYTES,
    AdapterWeights,
    adapter_digest,
    parse_adapter_config,
    read_adapter,
)
from edgelora.errors import DataCorruptError, EdgeLoraError
from edgelora.v1.adapter_store_service_pb2 import AdapterFile, FetchAdapterRequest, SharedLocation
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.base_model import BaseModel
from services.chassis.channel import translate_errors

_BLOB_NAME = re.compile(r"[0-9a-f]{64}")
_HEADER_ROOM_BYTES = 4 * 2**20


class AdapterSource:
    """Reads both files, from the shared directory or from the stream, and checks them whole."""

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
        self._max_weights_bytes = model.num_layers * features * max_rank * 4 + _HEADER_ROOM_BYTES
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="adapter-reader")

    async def fetch(self, digest: str, ticket: Sealed) -> AdapterWeights:
        """Returns an adapter's matrices, verified against its digest and the base model.

        Raises DataCorruptError when the bytes are not what the digest says, AdapterRejectedError
        or AdapterIncompatibleError when they can not be served, and what the store raises.
        """
        location, config, weights = await self._read(digest, ticket)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, self._assemble, digest, location, config, weights
        )

    def close(self) -> None:
        """Ends the reader thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(
        self, digest: str, ticket: Sealed
    ) -> tuple[SharedLocation | None, bytearray, bytearray]:
        request = FetchAdapterRequest(
            ticket=ticket,
            digest=digest,
            can_read_shared_directory=self._shared_directory is not None,
        )
        parts = {
            AdapterFile.ADAPTER_FILE_CONFIG: bytearray(),
            AdapterFile.ADAPTER_FILE_WEIGHTS: bytearray(),
        }
        limits = {
            AdapterFile.ADAPTER_FILE_CONFIG: MAX_CONFIG_BYTES,
            AdapterFile.ADAPTER_FILE_WEIGHTS: self._max_weights_bytes,
        }
        location: SharedLocation | None = None
        call = self._stub.FetchAdapter(request, timeout=self._timeout_s)
        try:
            with translate_errors():
                async for response in call:
                    if response.HasField("location"):
                        location = response.location
                        continue
                    chunk = response.chunk
                    part = parts.get(chunk.file)
                    if part is None or len(part) + len(chunk.data) > limits[chunk.file]:
                        raise DataCorruptError("the store sent more than an adapter can hold")
                    part += chunk.data
        finally:
            call.cancel()
        config, weights = parts.values()
        return location, config, weights

    def _assemble(
        self,
        digest: str,
        location: SharedLocation | None,
        config: bytearray,
        weights: bytearray,
    ) -> AdapterWeights:
        if location is not None:
            config = self._read_blob(location.config_blob, MAX_CONFIG_BYTES)
            weights = self._read_blob(location.weights_blob, self._max_weights_bytes)
        # The digest first: what was damaged on its way is not worth a better message.
        try:
            parsed = parse_adapter_config(bytes(config), max_rank=self._max_rank)
        except EdgeLoraError:
            if not config or not weights:
                raise DataCorruptError("the store sent an incomplete adapter") from None
            raise
        if adapter_digest(parsed, weights) != digest:
            raise DataCorruptError(
                "the adapter's bytes do not match its digest (checksum): register it again"
            )
        _, assembled = read_adapter(
            bytes(config),
            weights,
            targets=self._model.targets,
            num_layers=self._model.num_layers,
            max_rank=self._max_rank,
        )
        return assembled

    def _read_blob(self, name: str, max_bytes: int) -> bytearray:
        if self._shared_directory is None or _BLOB_NAME.fullmatch(name) is None:
            raise DataCorruptError("the store named a file that is no blob")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._shared_directory / name, flags)
            with os.fdopen(descriptor, "rb") as file:
                data = bytearray(file.read(max_bytes + 1))
        except OSError as error:
            raise DataCorruptError("a blob of the adapter can not be read") from error
        if len(data) > max_bytes:
            raise DataCorruptError("a blob is larger than an adapter can be")
        return data
