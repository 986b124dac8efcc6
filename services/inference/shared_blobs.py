"""Files of the adapter store's shared directory, mapped for reading."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import DataCorruptError

_BLOB_NAME = re.compile(r"[0-9a-f]{64}")


def map_blob(directory: Path, name: str, max_bytes: int) -> Buffer:
    """Maps a blob privately; no link is followed.

    Raises DataCorruptError when the name is none of a blob, or the file can not be read or is
    larger than allowed.
    """
    if _BLOB_NAME.fullmatch(name) is None:
        raise DataCorruptError("the store named a file that is no blob")
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb"):
            size = os.fstat(descriptor).st_size
            if size > max_bytes:
                raise DataCorruptError("a blob is larger than an adapter can be")
            # All pages at once: a fault for each would cost more than the reading.
            flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
            return mmap.mmap(descriptor, size, flags=flags, prot=mmap.PROT_READ) if size else b""
    except OSError as error:
        raise DataCorruptError("a blob of the adapter can not be read") from error
