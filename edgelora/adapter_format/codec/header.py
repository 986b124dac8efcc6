"""The first 128 bytes of an encoded adapter: which adapter it is, and how large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgelora.adapter_format.codec.layout import (
    HEADER,
    HEADER_BYTES,
    LEVELS,
    MAGIC,
    MAX_MODULES,
    MAX_RANK,
    VERSION,
)
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.error_tree import DataCorruptError


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedHeader:
    """What an encoded adapter says of itself."""

    digest: str
    """Of the adapter it was made from: `sha256:` and 64 hex digits."""
    base_digest: str
    """Of the base model the adapter is for."""
    level: float
    """The bound on the bits for one parameter it was made for: one of `LEVELS`."""
    rank: int
    """The largest rank of any module, as it decodes."""
    original_rank: int
    """The largest rank of any module before components were dropped."""
    num_modules: int
    num_components: int
    num_codebooks: int
    num_parameters: int
    """Of the original: the sum of rank * (in + out)."""
    file_bytes: int

    @property
    def bits_per_parameter(self) -> float:
        """Bits for each parameter of the original, everything in the file included."""
        return 8 * self.file_bytes / self.num_parameters


def damaged(what: str) -> DataCorruptError:
    """An error that says what does not hold in an encoded adapter."""
    return DataCorruptError(f"encoded adapter: {what}: fetch or register it again", field="encoded")


def read_encoded_header(buffer: Buffer) -> EncodedHeader:
    """Reads the header of an encoded adapter, of which `buffer` holds the first bytes or all.

    Whether the file has the length it says, and the rest of it, is for `decode` to check. Raises
    DataCorruptError.
    """
    data = memoryview(buffer).cast("B")
    if len(data) < HEADER_BYTES or bytes(data[:8]) != MAGIC:
        raise damaged("it is cut, or none")
    record = np.frombuffer(data, HEADER, 1)[0]
    if record["version"] != VERSION:
        raise damaged(f"the version is {record['version']}, read here is {VERSION}")
    header = EncodedHeader(
        digest=f"sha256:{record['digest'].tobytes().hex()}",
        base_digest=f"sha256:{record['base_digest'].tobytes().hex()}",
        level=int(record["level"]) / 100,
        rank=int(record["rank"]),
        original_rank=int(record["original_rank"]),
        num_modules=int(record["modules"]),
        num_components=int(record["components"]),
        num_codebooks=int(record["codebooks"]),
        num_parameters=int(record["parameters"]),
        file_bytes=int(record["file_bytes"]),
    )
    if not (
        1 <= header.num_modules <= MAX_MODULES
        and 2 <= header.num_codebooks <= 16
        and header.num_modules <= header.num_components <= header.num_modules * MAX_RANK
        and 1 <= header.rank <= header.original_rank <= MAX_RANK
        and header.num_parameters >= 1
        and header.level in LEVELS
        and not any(record["reserved"].tobytes())
    ):
        raise damaged("a field of the header is out of range")
    return header
