"""Fetches an encoder's adapter from the store, and trusts nothing but its digest."""

from __future__ import annotations

import time
from pathlib import Path

import grpc

from edgelora.adapter_format import (
    MAX_CONFIG_BYTES,
    MAX_HEAD_BYTES,
    EncoderAdapter,
    adapter_digest,
    read_encoder_adapter,
)
from edgelora.adapter_format.head import MAX_LABELS
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import DataCorruptError
from edgelora.v1.adapter_store_service_pb2 import AdapterFile
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.base_model import BaseModel
from services.inference.adapter_source import max_factor_bytes
from services.inference.adapter_transport import AdapterTransport, ReceivedFiles
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.engine.fetched_adapter import FetchCost


class EncoderAdapterSource:
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
        head_bytes = MAX_LABELS * (model.hidden_size + 1) * 4
        self._transport = AdapterTransport(
            channel,
            {
                AdapterFile.ADAPTER_FILE_CONFIG: MAX_CONFIG_BYTES,
                AdapterFile.ADAPTER_FILE_WEIGHTS: max_factor_bytes(model, max_rank) + head_bytes,
                AdapterFile.ADAPTER_FILE_HEAD: MAX_HEAD_BYTES,
            },
            timeout_s=timeout_s,
            shared_directory=shared_directory,
        )

    async def fetch(
        self, digest: str, ticket: Sealed, *, is_urgent: bool = False
    ) -> FetchedEncoderAdapter:
        """Returns an adapter, verified against its digest and the encoder.

        Raises as `services.inference.adapter_source.AdapterSource.fetch`.
        """
        return await self._transport.fetch(digest, ticket, self._check, is_urgent=is_urgent)

    def close(self) -> None:
        """Ends the reader threads."""
        self._transport.close()

    def _check(self, digest: str, received: ReceivedFiles) -> FetchedEncoderAdapter:
        started_s = time.perf_counter()
        adapter = self._read(digest, received.files)
        return FetchedEncoderAdapter(
            weights=adapter.weights,
            head=adapter.head,
            cost=FetchCost(
                bytes_read=received.num_bytes,
                remote_s=received.remote_s,
                fetch_s=received.fetch_s,
                check_s=time.perf_counter() - started_s,
            ),
        )

    def _read(self, digest: str, files: dict[int, Buffer]) -> EncoderAdapter:
        config = bytes(files.get(AdapterFile.ADAPTER_FILE_CONFIG, b""))
        weights = files.get(AdapterFile.ADAPTER_FILE_WEIGHTS, b"")
        head = files.get(AdapterFile.ADAPTER_FILE_HEAD)
        if not config or not len(weights):
            raise DataCorruptError("the store sent an incomplete adapter")
        adapter = read_encoder_adapter(
            config,
            weights,
            None if head is None else bytes(head),
            targets=self._model.targets,
            num_layers=self._model.num_layers,
            hidden_size=self._model.hidden_size,
            max_rank=self._max_rank,
        )
        if adapter_digest(adapter.config, weights, adapter.head_settings) != digest:
            raise DataCorruptError(
                "the adapter's bytes do not match its digest (checksum): register it again"
            )
        return adapter
