"""Checks that the header of a GGUF file stays within the file.

The library that reads it believes every length: one that lies would have it fill the memory.
Layout: github.com/ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError

_VERSIONS = (2, 3)
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number of each kind."""
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4
_MAX_VALUES = 2**48
"""In one tensor; well beyond any, and no product with a block's bytes overflows."""
_MAX_ENTRIES = 2**16
"""Pairs, and tensors."""
_MAX_ITEMS = 2**21
"""Of all arrays together. The library makes objects of each: 700 bytes, and 18 microseconds."""
_DAMAGES = (ValueError, KeyError, struct.error)


def check_header(path: Path) -> None:
    """Raises ToolchainError when the file is no GGUF file, cut, or leads beyond its own end."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ToolchainError(f"{path.name} is no GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                version = _Walk(data).run()
            except _DAMAGES as error:
                raise ToolchainError(f"{path.name} is cut or damaged: download it again") from error
    if version not in _VERSIONS:
        raise ToolchainError(
            f"{path.name} is no GGUF file of version {' or '.join(map(str, _VERSIONS))} in "
            "little-endian order: convert the model again"
        )


class _Walk:
    """Steps over the header. Raises one of `_DAMAGES` where it leaves the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4
        self._items_left = _MAX_ITEMS

    def run(self) -> int:
        """Returns the version; of another one than ours nothing more is looked at."""
        version = self._number("<I")
        if version not in _VERSIONS:
            return version
        num_tensors, num_pairs = self._number("<Q"), self._number("<Q")
        if max(num_tensors, num_pairs) > _MAX_ENTRIES:
            raise ValueError("more entries than any model has")
        self._repeat(num_pairs, self._pair)
        self._repeat(num_tensors, self._tensor)
        return version

    def _repeat(self, count: int, step: Callable[[], None]) -> None:
        if count > len(self._data):
            raise ValueError("more items than bytes")
        for _ in range(count):
            step()

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise ValueError("beyond the end")
        self._at += size

    def _string(self) -> None:
        self._skip(self._number("<Q"))

    def _pair(self) -> None:
        self._string()
        kind = self._number("<I")
        if kind == _STRING:
            self._string()
        elif kind != _ARRAY:
            self._skip(_SIZES[kind])
        else:
            kind, count = self._number("<I"), self._number("<Q")
            self._items_left -= count
            if self._items_left < 0:
                raise ValueError("more items than any model has")
            if kind == _STRING:
                self._repeat(count, self._string)
            else:
                self._skip(_SIZES[kind] * count)

    def _tensor(self) -> None:
        self._string()
        num_dimensions = self._number("<I")
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise ValueError("dimensions out of range")
        size = math.prod(self._number("<Q") for _ in range(num_dimensions))
        if not 1 <= size <= _MAX_VALUES:
            raise ValueError("size out of range")
        self._number("<I")
        if self._number("<Q") > len(self._data):
            raise ValueError("beyond the end")
