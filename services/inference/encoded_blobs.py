"""Whether an encoded adapter is the one that is wanted; whether it is whole, the decoder says."""

from __future__ import annotations

import hashlib

from edgelora.adapter_format.codec import read_encoded_header
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import DataCorruptError


def check_encoded(data: Buffer, *, file_hash: str, digest: str, base_digest: str) -> None:
    """Raises DataCorruptError when the bytes are not those of `file_hash`, their hex SHA-256,
    or are of another adapter or for another base model."""
    if hashlib.sha256(data).hexdigest() != file_hash:
        raise DataCorruptError(
            "the adapter's bytes do not match its digest (checksum): register it again"
        )
    header = read_encoded_header(data)
    if header.digest != digest:
        raise DataCorruptError("the store sent another adapter than the one that was asked for")
    if header.base_digest != base_digest:
        raise DataCorruptError("the adapter was encoded for another base model: register it again")
