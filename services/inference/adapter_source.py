"""Fetches an adapter from the store, and trusts nothing but its digest."""

from __future__ import annotations

import time
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
from edgelora.v1.adapter_store_service_pb2 import AdapterFile
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.base_model import BaseModel
from services.inference.adapter_transport import AdapterTransport, ReceivedFiles
from services.inference.backends.base import EncodedAdapter, LoadableAdapter
from services.inference.certificates import encoded_file_hash, to_reference
from services.inference.encoded_blobs import check_encoded
from services.inference.engine.fetched_adapter import FetchCost, FetchedAdapter

_HEADER_ROOM_BYTES = 4 * 2**20


def max_factor_bytes(model: BaseModel, max_rank: int) -> int:
    """The most a file of LoRA factors for all modules of a model has, in float32."""
    features = sum(sum(shape) for shape in model.targets.values())
    return model.num_layers * features * max_rank * 4 + _HEADER_ROOM_BYTES


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
        self._model = model
        self._max_rank = max_rank
        max_weights_bytes = max_factor_bytes(model, max_rank)
        self._transport = AdapterTransport(
            channel,
            {
                AdapterFile.ADAPTER_FILE_CONFIG: MAX_CONFIG_BYTES,
                AdapterFile.ADAPTER_FILE_WEIGHTS: max_weights_bytes,
                AdapterFile.ADAPTER_FILE_ENCODED: max_weights_bytes,
            },
            timeout_s=timeout_s,
            shared_directory=shared_directory,
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
        return await self._transport.fetch(digest, ticket, self._check, is_urgent=is_urgent)

    def close(self) -> None:
        """Ends the reader threads."""
        self._transport.close()

    def _check(self, digest: str, received: ReceivedFiles) -> FetchedAdapter:
        started_s = time.perf_counter()
        encoded = received.files.get(AdapterFile.ADAPTER_FILE_ENCODED)
        adapter: LoadableAdapter
        form = ""
        if encoded is None:
            adapter = self._assemble(digest, received.files)
        else:
            location, certificate = received.location, received.certificate
            form = location.encoded_blob if location else encoded_file_hash(certificate)
            check_encoded(encoded, file_hash=form, digest=digest, base_digest=self._model.digest)
            adapter = EncodedAdapter(encoded)
        return FetchedAdapter(
            adapter,
            to_reference(received.certificate, self._model.vocab_size),
            FetchCost(
                bytes_read=received.num_bytes,
                remote_s=received.remote_s,
                fetch_s=received.fetch_s,
                check_s=time.perf_counter() - started_s,
            ),
            form,
        )

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
