"""Relays a tenant's adapter upload to the adapter store, message by message.

Nothing is kept here: the store verifies the files and shows nothing before they are whole, and a
client that leaves cancels the call to the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from edgelora.errors import (
    AdapterRejectedError,
    DeadlineExceededError,
    InvalidRequestError,
)
from edgelora.v1 import adapter_store_service_pb2 as store_pb
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata
from services.gateway.upstream import Upstream, errors_of
from services.gateway.validation import (
    CARD_FILE,
    CONFIG_FILE,
    HEAD_FILE,
    PROBE_FILE,
    WEIGHTS_FILE,
    check_upload_header,
)

MAX_CHUNK_BYTES = 2**20
_FILES = {
    CONFIG_FILE: store_pb.ADAPTER_FILE_CONFIG,
    WEIGHTS_FILE: store_pb.ADAPTER_FILE_WEIGHTS,
    PROBE_FILE: store_pb.ADAPTER_FILE_PROBE,
    CARD_FILE: store_pb.ADAPTER_FILE_CARD,
    HEAD_FILE: store_pb.ADAPTER_FILE_HEAD,
}


class UploadRelay:
    """Passes uploads on to the store."""

    def __init__(self, upstream: Upstream, *, max_weights_bytes: int, stall_s: float) -> None:
        self._upstream = upstream
        self._max_weights_bytes = max_weights_bytes
        self._stall_s = stall_s

    async def relay(
        self, messages: AsyncIterator[pb.RegisterAdapterRequest], claim: Sealed, timeout_s: float
    ) -> pb.RegisterAdapterResponse:
        """Returns what the store registered.

        Raises InvalidRequestError or AdapterRejectedError for a bad upload,
        DeadlineExceededError when no message comes for a while, and what the store raises.
        """
        source = _Unhurried(messages, self._stall_s)
        first = await source.next()
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidRequestError("header must be the first message", field="header")
        check_upload_header(first.header, self._max_weights_bytes)
        store = await self._upstream.store()
        call = store.RegisterAdapter(timeout=timeout_s, metadata=call_metadata())
        try:
            with errors_of("adapter store"):
                await _write(call, _store_header(first.header, claim))
                async for chunk in _chunks(source, first.header):
                    await _write(
                        call, store_pb.AdapterStoreServiceRegisterAdapterRequest(chunk=chunk)
                    )
                await call.done_writing()
                return to_registered(await call)
        finally:
            call.cancel()


def to_registered(
    stored: store_pb.AdapterStoreServiceRegisterAdapterResponse,
) -> pb.RegisterAdapterResponse:
    """What the store registered, as a tenant is told."""
    return pb.RegisterAdapterResponse(
        adapter=stored.adapter,
        alias=stored.alias if stored.HasField("alias") else None,
        is_new=stored.is_new,
    )


class _Unhurried:
    """Reads messages, but not from somebody who sends none for `stall_s` seconds."""

    def __init__(self, messages: AsyncIterator[pb.RegisterAdapterRequest], stall_s: float) -> None:
        self._messages = messages
        self._stall_s = stall_s

    async def next(self) -> pb.RegisterAdapterRequest | None:
        """The next message, None at the end."""
        try:
            async with asyncio.timeout(self._stall_s):
                return await anext(self._messages, None)
        except TimeoutError:
            raise DeadlineExceededError(
                f"nothing was uploaded for {self._stall_s:g} seconds: send the adapter again"
            ) from None


async def _chunks(
    source: _Unhurried, header: pb.AdapterUploadHeader
) -> AsyncIterator[store_pb.StoreUploadChunk]:
    """Yields the checked chunks; raises when a file is longer or shorter than announced."""
    missing = {file.name: file.size_bytes for file in header.files}
    while (message := await source.next()) is not None:
        if message.WhichOneof("part") != "chunk":
            raise _invalid("chunk", "is expected after the header, which comes once")
        name, data = message.chunk.file_name, message.chunk.data
        if name not in missing:
            raise _invalid("chunk.file_name", "must be a file the header announced")
        if not 1 <= len(data) <= MAX_CHUNK_BYTES:
            raise _invalid("chunk.data", f"must have 1 to {MAX_CHUNK_BYTES} bytes")
        if len(data) > missing[name]:
            raise AdapterRejectedError(
                f"chunk.data exceeds the announced size of {name}", field="chunk.data"
            )
        missing[name] -= len(data)
        yield store_pb.StoreUploadChunk(file=_FILES[name], data=data)
    for name, num_bytes in missing.items():
        if num_bytes:
            raise AdapterRejectedError(
                f"the upload ended {num_bytes} bytes before the end of {name}", field="chunk.data"
            )


async def _write(call: Any, message: store_pb.AdapterStoreServiceRegisterAdapterRequest) -> None:
    try:
        await call.write(message)
    except asyncio.InvalidStateError:
        # The store has ended the call already; the call itself says why.
        await call


def _store_header(
    header: pb.AdapterUploadHeader, claim: Sealed
) -> store_pb.AdapterStoreServiceRegisterAdapterRequest:
    sizes = {file.name: file.size_bytes for file in header.files}
    announced = store_pb.StoreUploadHeader(
        claim=claim,
        alias=header.alias,
        description=header.description,
        replace_alias=header.replace_alias,
        config_size_bytes=sizes[CONFIG_FILE],
        weights_size_bytes=sizes[WEIGHTS_FILE],
        probe_size_bytes=sizes.get(PROBE_FILE, 0),
        card_size_bytes=sizes.get(CARD_FILE, 0),
        head_size_bytes=sizes.get(HEAD_FILE, 0),
        version_of_digest=header.version_of_digest,
    )
    if header.HasField("expected_generation"):
        announced.expected_generation = header.expected_generation
    return store_pb.AdapterStoreServiceRegisterAdapterRequest(header=announced)


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
