"""`router.safetensors`: the parameters of a router and what its scores mean.

The tensors are those of `Weights`, F32 or F16. The metadata holds `format` ("edgelora-router"),
`version` ("1") and `temperature`: nats of loss that one unit of score stands for.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.strict_json import parse_object
from edgelora.adapter_format.tensor_file import FILE as ADAPTER_FILE
from edgelora.adapter_format.tensor_file import read_tensors
from edgelora.error_tree import AdapterRejectedError
from edgelora.routing.network import Weights

FORMAT = "edgelora-router"
VERSION = "1"
MAX_FILE_BYTES = 64 << 20
MIN_TEMPERATURE = 1e-3
MAX_TEMPERATURE = 1e3
_REMEDY = "train it again with `edgelora router train`"


class RouterFileError(ValueError):
    """A router file cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RouterFile:
    """What a router file holds."""

    weights: Weights
    temperature: float
    """Nats of loss for one unit of score."""

    def encoded(self) -> bytes:
        """The file's bytes, weights as F16; the same for the same router."""
        header: dict[str, object] = {
            "__metadata__": {
                "format": FORMAT,
                "version": VERSION,
                "temperature": repr(self.temperature),
            }
        }
        parts: list[bytes] = []
        position = 0
        for field in fields(Weights):
            array: NDArray[np.float32] = getattr(self.weights, field.name)
            data = array.astype("<f2").tobytes()
            offsets = [position, position + len(data)]
            header[field.name] = {"dtype": "F16", "shape": array.shape, "data_offsets": offsets}
            position = offsets[1]
            parts.append(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_router_file(path: Path) -> RouterFile:
    """Reads and checks a router file.

    Raises RouterFileError for anything that is not exactly a router, and OSError when the file
    cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    return decode_router_file(data)


def decode_router_file(data: bytes) -> RouterFile:
    """As `read_router_file`, from the file's bytes."""
    if len(data) > MAX_FILE_BYTES:
        raise RouterFileError(f"the router file is larger than {MAX_FILE_BYTES} bytes: {_REMEDY}")
    try:
        tensors = read_tensors(data)
        header_end = 8 + int.from_bytes(data[:8], "little")
        metadata = parse_object(data[8:header_end], field="header").get("__metadata__") or {}
    except AdapterRejectedError as error:
        why = error.message.removeprefix(f"{ADAPTER_FILE}: ").replace(ADAPTER_FILE, "the file")
        raise RouterFileError(f"the router file is damaged ({why}): {_REMEDY}") from None
    if metadata.get("format") != FORMAT:
        raise RouterFileError(f"the file holds no router: {_REMEDY}")
    if metadata.get("version") != VERSION:
        raise RouterFileError(f"the router file is not of version {VERSION}: {_REMEDY}")
    names = [field.name for field in fields(Weights)]
    if set(tensors) != set(names):
        raise RouterFileError(f"the router file lacks tensors or holds others: {_REMEDY}")
    weights = Weights(**{name: tensors[name].astype(np.float32) for name in names})
    try:
        weights.check()
    except ValueError as error:
        raise RouterFileError(f"the router file is damaged ({error}): {_REMEDY}") from None
    return RouterFile(weights, _temperature(metadata.get("temperature")))


def _temperature(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not MIN_TEMPERATURE <= value <= MAX_TEMPERATURE:
        raise RouterFileError(f"the router file's temperature is out of range: {_REMEDY}")
    return value
