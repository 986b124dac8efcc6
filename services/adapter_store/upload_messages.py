"""Uploads and installations as their messages announce them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from edgelora.errors import InvalidRequestError
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.adapter_store.registry.writer import AliasWish
from services.adapter_store.upload import FileKind
from services.adapter_store.wish import Wish

_KINDS: dict[int, FileKind] = {
    pb.ADAPTER_FILE_CONFIG: "config",
    pb.ADAPTER_FILE_WEIGHTS: "weights",
    pb.ADAPTER_FILE_PROBE: "probe",
    pb.ADAPTER_FILE_CARD: "card",
    pb.ADAPTER_FILE_HEAD: "head",
}
AliasAsker = pb.StoreUploadHeader | pb.AdapterStoreServiceInstallAdapterRequest


def upload_wish(header: pb.StoreUploadHeader) -> Wish:
    """What a tenant wants of an upload. Raises InvalidRequestError."""
    return replace(wish(header), version_of_digest=header.version_of_digest or None)


def wish(request: AliasAsker) -> Wish:
    """What a tenant wants of an adapter it brings. Raises InvalidRequestError."""
    alias = None
    has_expectation = request.HasField("expected_generation")
    if request.alias:
        alias = AliasWish(
            name=request.alias,
            may_replace=request.replace_alias,
            expected_generation=request.expected_generation if has_expectation else None,
        )
    elif has_expectation:
        raise InvalidRequestError(
            "an expected generation needs the alias it is of", field="expected_generation"
        )
    return Wish(alias=alias, description=request.description)


def upload_sizes(header: pb.StoreUploadHeader) -> dict[FileKind, int]:
    """The announced bytes of each file; 0 for one that does not come."""
    return {
        "config": header.config_size_bytes,
        "weights": header.weights_size_bytes,
        "probe": header.probe_size_bytes,
        "card": header.card_size_bytes,
        "head": header.head_size_bytes,
    }


async def upload_chunks(
    requests: AsyncIterator[pb.AdapterStoreServiceRegisterAdapterRequest],
) -> AsyncIterator[tuple[FileKind, bytes]]:
    """What follows the header. Raises InvalidRequestError."""
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise InvalidRequestError("only chunks may follow the header", field="chunk")
        if request.chunk.file not in _KINDS:
            raise InvalidRequestError("the chunk names no file of an adapter", field="chunk.file")
        yield _KINDS[request.chunk.file], request.chunk.data
