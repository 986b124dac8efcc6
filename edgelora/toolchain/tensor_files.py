"""Reading and writing safetensors files one tensor at a time.

The library's own functions need the whole model in memory, or cannot show bfloat16 to numpy. The
format is a little-endian 64-bit header length, a JSON header and the bytes
(github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.decoder_shape import is_count
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import ALL_ROWS, check_finite
from edgelora.toolchain.progress import Bar

_MAX_HEADER_BYTES = 64 * 1024 * 1024
_MAX_COUNT = 2**62
_ITEMS: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a mapped file; its bytes are read when `float32` is called."""

    shape: tuple[int, ...]
    dtype: str
    raw: NDArray[np.uint8]

    def float32(self, rows: slice = ALL_ROWS) -> NDArray[np.float32]:
        """The values as fp32, shape as stored, or those of some rows."""
        stored = self.raw.view(_ITEMS[self.dtype]).reshape(self.shape)[rows]
        if self.dtype == "BF16":
            # bfloat16 is the upper half of a float32.
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        values: NDArray[np.float32] = stored.astype(np.float32)
        return values


def open_tensors(
    path: Path, spare: Callable[[str], bool] = lambda _: False
) -> dict[str, StoredTensor]:
    """Maps a safetensors file, but for the tensors whose names are `spare`.

    Raises ToolchainError when it is cut or holds another dtype.
    """
    size = path.stat().st_size
    data = np.memmap(path, dtype=np.uint8, mode="r") if size else np.empty(0, np.uint8)
    header_end = 8 + (
        struct.unpack("<Q", data[:8].tobytes())[0] if size >= 8 else _MAX_HEADER_BYTES
    )
    if header_end > min(size, _MAX_HEADER_BYTES):
        raise ToolchainError(f"{path.name} is cut or no safetensors file: copy it again")
    try:
        header = json.loads(data[8:header_end].tobytes())
        entries = [
            (name, entry["dtype"], _counts(entry["shape"]), *_counts(entry["data_offsets"], 2))
            for name, entry in header.items()
            if name != "__metadata__" and not spare(name)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolchainError(f"{path.name} has a broken header: copy it again") from error
    tensors = {}
    for name, dtype, shape, begin, end in entries:
        if not isinstance(dtype, str) or dtype not in _ITEMS:
            raise ToolchainError(
                f"{path.name}: tensor {name!r} has dtype {dtype!r}, expected one of "
                f"{', '.join(_ITEMS)}: save the model in one of these"
            )
        if (
            not begin <= end <= size - header_end
            or end - begin != math.prod(shape) * _ITEMS[dtype].itemsize
        ):
            raise ToolchainError(f"{path.name}: tensor {name!r} is cut: copy the file again")
        tensors[name] = StoredTensor(shape, dtype, data[header_end + begin : header_end + end])
    return tensors


def _counts(values: object, length: int | None = None) -> tuple[int, ...]:
    """A list of whole numbers. Raises TypeError for anything else, ValueError for another length.

    A bound on each keeps numpy from seeing what it can not hold.
    """
    if not isinstance(values, list) or not all(is_count(one) for one in values):
        raise TypeError
    if not all(0 <= one < _MAX_COUNT for one in values) or length not in (None, len(values)):
        raise ValueError
    return tuple(values)


def write_float32(
    path: Path,
    shapes: dict[str, tuple[int, ...]],
    tensors: Iterable[tuple[str, NDArray[np.float32]]],
    bar: Bar,
) -> None:
    """Writes an fp32 safetensors file, tensors in the order of `shapes`, and syncs it to disk.

    `bar` counts values. Raises ToolchainError when `tensors` does not deliver exactly `shapes`, or
    a value that is not finite.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    # Padded so that every tensor starts at a multiple of 64 bytes, which mapped readers like.
    text += b" " * (-(len(text) + 8) % 64)
    expected = iter(shapes.items())
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for name, values in tensors:
            if next(expected, None) != (name, values.shape):
                raise ToolchainError(f"tensor {name} has shape {list(values.shape)}: unexpected")
            check_finite(name, values)
            file.write(np.ascontiguousarray(values, dtype="<f4").data)
            bar.advance(values.size)
        if (missing := next(expected, None)) is not None:
            raise ToolchainError(f"tensor {missing[0]} is missing in the source")
        file.flush()
        os.fsync(file.fileno())
