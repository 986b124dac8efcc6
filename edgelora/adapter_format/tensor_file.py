"""Reading a safetensors file with our own bounds, and writing one.

Format: 8 bytes little-endian header length, a JSON header, then the data
(https://huggingface.co/docs/safetensors, "Format"). Offsets have to cover the data exactly:
no hole, no overlap, nothing left over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.foreign_content import describe_foreign_content
from edgelora.adapter_format.naming import shown
from edgelora.adapter_format.strict_json import parse_object
from edgelora.error_tree import AdapterRejectedError

FILE = "adapter_model.safetensors"
MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 10_000
MAX_TENSOR_NAME_LENGTH = 512
MAX_METADATA_BYTES = 64 << 10
_MAX_DIMENSIONS = 8
_MAX_EXTENT = 1 << 40
Buffer = bytes | bytearray | memoryview | mmap
"""A whole file in memory, or mapped."""

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One checked entry of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    """Offset of the first byte, from the start of the data."""
    end: int


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE}: {why}", field="weights")


def read_header(data: memoryview) -> tuple[list[TensorEntry], int]:
    """Checks the header of a whole file against its size.

    Returns the entries in the order of their data, and the offset at which the data starts.
    Raises AdapterRejectedError before any tensor is built.
    """
    if len(data) == 0:
        raise AdapterRejectedError(f"{FILE} is missing or empty", field="weights")
    header_bytes = int.from_bytes(data[:8], "little")
    if len(data) < 10 or header_bytes > len(data) - 8 or data[8] != ord("{"):
        kind = describe_foreign_content(bytes(data[:512]))
        if kind is not None:
            raise _refuse(f"this is {kind}; only safetensors is accepted")
        raise _refuse("the file is cut, or not safetensors")
    if header_bytes > MAX_HEADER_BYTES:
        raise _refuse(f"the header has {header_bytes} bytes, the limit is {MAX_HEADER_BYTES}")
    document = parse_object(bytes(data[8 : 8 + header_bytes]), field=FILE)
    _check_metadata(document.pop("__metadata__", None))
    if not document:
        raise _refuse("the file holds no tensor")
    if len(document) > MAX_TENSORS:
        raise _refuse(f"the file holds {len(document)} tensors, the limit is {MAX_TENSORS}")
    entries = sorted(
        (_entry(name, value) for name, value in document.items()), key=lambda entry: entry.begin
    )
    _check_cover(entries, len(data) - 8 - header_bytes)
    return entries, 8 + header_bytes


def read_tensors(buffer: Buffer) -> dict[str, NDArray[np.floating[Any]]]:
    """Reads every tensor of a safetensors file.

    Returns read-only views of the buffer for F32 and F16, and float32 copies for BF16. Values are
    not looked at. Raises AdapterRejectedError with `field` "weights".
    """
    data = memoryview(buffer).cast("B").toreadonly()
    entries, start = read_header(data)
    return {entry.name: _tensor(entry, data, start) for entry in entries}


def write_tensors(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """A safetensors file of float32 tensors, in their order; its data starts at a multiple of 8."""
    header: dict[str, Any] = {}
    position = 0
    for name, values in tensors.items():
        end = position + values.nbytes
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": (position, end)}
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = (values.astype("<f4", copy=False).tobytes() for values in tensors.values())
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def _tensor(entry: TensorEntry, data: memoryview, start: int) -> NDArray[np.floating[Any]]:
    count = math.prod(entry.shape)
    offset = start + entry.begin
    if entry.dtype == "F32":
        return np.frombuffer(data, "<f4", count, offset).reshape(entry.shape)
    if entry.dtype == "F16":
        return np.frombuffer(data, "<f2", count, offset).reshape(entry.shape)
    # bfloat16 is the upper half of a float32.
    wide = np.frombuffer(data, "<u2", count, offset).astype("<u4") << np.uint32(16)
    return wide.view("<f4").reshape(entry.shape)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_EXTENT


def _entry(name: str, value: Any) -> TensorEntry:
    if not name or len(name) > MAX_TENSOR_NAME_LENGTH:
        raise _refuse(f"a tensor name has {len(name)} characters, allowed are 1 to 512")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _refuse(f"the header entry of {shown(name)} is malformed")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        known = ", ".join(_ITEM_BYTES)
        told = shown(dtype) if isinstance(dtype, str) else "malformed"
        raise _refuse(f"{shown(name)} has the dtype {told}, accepted are {known}")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= _MAX_DIMENSIONS
        or not all(_is_count(extent) and extent > 0 for extent in shape)
    ):
        raise _refuse(f"the shape of {shown(name)} is malformed")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _refuse(f"the offsets of {shown(name)} are malformed")
    begin, end = offsets
    if end - begin != math.prod(shape) * _ITEM_BYTES[dtype]:
        raise _refuse(f"the offsets of {shown(name)} do not fit its shape")
    return TensorEntry(name, dtype, tuple(shape), begin, end)


def _check_cover(entries: list[TensorEntry], data_bytes: int) -> None:
    position = 0
    for entry in entries:
        if entry.begin != position:
            kind = "overlaps its neighbour" if entry.begin < position else "leaves a hole before it"
            raise _refuse(f"{shown(entry.name)} {kind}")
        position = entry.end
    if position > data_bytes:
        raise _refuse(f"the file is cut: {position} bytes of tensors, {data_bytes} present")
    if position < data_bytes:
        raise _refuse(f"{data_bytes - position} bytes after the last tensor belong to none")


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _refuse("__metadata__ has to map text to text")
    if sum(len(key) + len(value) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        raise _refuse(f"__metadata__ is larger than {MAX_METADATA_BYTES} characters")
