"""Cuts an adapter directory into the messages of an upload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from edgelora.errors import AdapterRejectedError
from edgelora.v1 import gateway_service_pb2 as pb

FILE_NAMES = ("adapter_config.json", "adapter_model.safetensors")
"""The two files of an adapter."""
PROBE_NAME = "probe.jsonl"
CARD_NAME = "card.json"
HEAD_NAME = "head.json"
OPTIONAL_NAMES = (PROBE_NAME, CARD_NAME, HEAD_NAME)
"""Go with them where they are; whatever else lies in the directory stays there."""
CHUNK_BYTES = 512 * 1024

Progress = Callable[[int, int], None]
"""Called with the bytes sent so far and the bytes in all."""


def upload_messages(
    directory: Path,
    *,
    alias: str,
    description: str,
    replace_alias: bool,
    expected_generation: int | None,
    version_of_digest: str = "",
    on_progress: Progress | None,
) -> Iterator[pb.RegisterAdapterRequest]:
    """Yields the header, then the chunks of each file.

    Raises AdapterRejectedError naming the file that is missing or empty.
    """
    sizes = file_sizes(directory)
    yield pb.RegisterAdapterRequest(
        header=pb.AdapterUploadHeader(
            alias=alias,
            description=description,
            replace_alias=replace_alias,
            expected_generation=expected_generation,
            version_of_digest=version_of_digest,
            files=[
                pb.AdapterUploadFile(name=name, size_bytes=size) for name, size in sizes.items()
            ],
        )
    )
    total_bytes, sent_bytes = sum(sizes.values()), 0
    for name in sizes:
        with (directory / name).open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                yield pb.RegisterAdapterRequest(
                    chunk=pb.AdapterUploadChunk(file_name=name, data=data)
                )
                sent_bytes += len(data)
                if on_progress is not None:
                    on_progress(sent_bytes, total_bytes)


def file_sizes(directory: Path) -> dict[str, int]:
    """Bytes of the files of an adapter, in the order they are sent.

    Raises AdapterRejectedError naming the file that is missing or empty.
    """
    sizes = {name: _size_bytes(directory, name) for name in FILE_NAMES}
    for name in OPTIONAL_NAMES:
        if (directory / name).is_file():
            sizes[name] = _size_bytes(directory, name)
    return sizes


def _size_bytes(directory: Path, name: str) -> int:
    path = directory / name
    size = path.stat().st_size if path.is_file() else 0
    if size == 0:
        raise AdapterRejectedError(
            f"{name} is missing or empty in the adapter directory: "
            + (
                "write something into it, or remove it"
                if name in OPTIONAL_NAMES
                else f"an adapter needs both {' and '.join(FILE_NAMES)}"
            ),
            field=name,
        )
    return size
