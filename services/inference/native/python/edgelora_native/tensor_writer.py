"""Writes a file of tensors: a header, a table of what lies where, the tensors (src/tensor_file.h).

Little-endian. A table entry: kind (0 absent, 1 float32, 2 4-bit, 3 8-bit, 4 to 6 symmetric of so
many bits, 7 bfloat16, 8 8-bit row by row), rows, columns, 0 (u32 each), offset and bytes (u64
each). Every tensor lies at a multiple of 64; a page the kernels may prefetch from follows the last.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

_ENTRY = struct.Struct("<4I2Q")
_ALIGNMENT = 64
_PAGE = 4096
_KIND_ABSENT, _KIND_FLOAT = 0, 1


class Blocks(Protocol):
    """A quantised tensor."""

    @property
    def kind(self) -> int:
        """Its number in the table."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def blocks(self) -> NDArray[np.uint8]:
        """Its bytes in the file."""
        ...


class TensorWriter:
    """Writes the tensors of one file in the order of its table."""

    def __init__(self, file: BinaryIO, header: struct.Struct, num_tensors: int) -> None:
        """`file`: empty. `header`: the header, whose last field is the bytes of the file."""
        self._file = file
        self._header = header
        self._num_tensors = num_tensors
        self._table: list[bytes] = []
        self._header_bytes = header.size + num_tensors * _ENTRY.size
        file.seek(-(-self._header_bytes // _PAGE) * _PAGE)

    def put(self, tensor: Blocks | NDArray[np.float32] | None) -> None:
        """Writes the next tensor; None: it is absent. An array of one dimension is one row."""
        if tensor is None:
            self._table.append(_ENTRY.pack(_KIND_ABSENT, 0, 0, 0, 0, 0))
            return
        self._file.seek(-(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT)
        if isinstance(tensor, np.ndarray):
            kind, (rows, columns) = _KIND_FLOAT, np.atleast_2d(tensor).shape
            data = tensor.astype("<f4").tobytes()
        else:
            kind, (rows, columns) = tensor.kind, tensor.shape
            data = tensor.blocks().tobytes()
        self._table.append(_ENTRY.pack(kind, rows, columns, 0, self._file.tell(), len(data)))
        self._file.write(data)

    def finish(self, magic: bytes, version: int, *numbers: float) -> None:
        """Writes the header and the table. Raises ValueError when tensors are missing."""
        if len(self._table) != self._num_tensors:
            raise ValueError(
                f"{len(self._table)} tensors were given, the shape needs {self._num_tensors}"
            )
        file_bytes = self._file.tell() + _PAGE
        self._file.truncate(file_bytes)
        self._file.seek(0)
        self._file.write(
            self._header.pack(magic, version, self._header_bytes, *numbers, file_bytes)
        )
        self._file.write(b"".join(self._table))
