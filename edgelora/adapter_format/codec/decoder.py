"""From the encoded form back to an adapter's factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.codebook import Codebook, look_up
from edgelora.adapter_format.codec.header import EncodedHeader, damaged, read_encoded_header
from edgelora.adapter_format.codec.layout import (
    B_SCALE,
    CODEBOOK,
    COMPONENT,
    FACTOR_A,
    FACTOR_B,
    FEATURE_MULTIPLE,
    HEADER_BYTES,
    MAX_BITS,
    MAX_FEATURES,
    MAX_LEVEL,
    MAX_RANK,
    MAX_WINDOW,
    MIN_WINDOW,
    MODULE,
    MODULES,
    TAIL_BYTES,
)
from edgelora.adapter_format.codec.runs import Runs, alike
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.adapter_format.weights import AdapterWeights, LoraPair

Records = NDArray[Any]
Codebooks = dict[tuple[int, int], Codebook]


def decode(buffer: Buffer) -> AdapterWeights:
    """Decodes a whole encoded adapter.

    The factors are those a slot of the native core holds: a half times an integer for A, an
    integer over 128 for B. Modules that were left out have no pair. Takes at most 64 times the
    memory of `buffer`. Raises DataCorruptError when a rule of docs/codec.md does not hold; whether
    the adapter fits a base model is for the caller.
    """
    data = memoryview(buffer).cast("B").toreadonly()
    header = read_encoded_header(data)
    if header.file_bytes != len(data):
        raise damaged(f"{len(data)} bytes are there of {header.file_bytes}")
    reader = _Reader(data)
    modules = reader.records(MODULE, header.num_modules)
    _check_modules(modules, header)
    components = reader.records(COMPONENT, header.num_components)
    codebooks = _read_codebooks(reader, header.num_codebooks)
    _check_components(components, codebooks)
    bits = np.stack([components["bits_a"], components["bits_b"]], axis=1).astype(np.int64)
    ranks = modules["rank"].astype(np.int64)
    runs = Runs.lay_out(
        ranks, modules["in"].astype(np.int64), modules["out"].astype(np.int64), bits
    )
    payload = reader.records(np.dtype("u1"), runs.num_bytes)
    if reader.records(np.dtype("u1"), TAIL_BYTES).any() or not reader.is_at_end:
        raise damaged("it does not end as it should")
    levels = _look_up(runs, payload, codebooks)
    levels_a, levels_b = levels[: len(components)], levels[len(components) :]
    scales = components["scale"].astype(np.float32)
    pairs: dict[tuple[int, str], LoraPair] = {}
    end = 0
    for record in modules:
        start, end = end, end + int(record["rank"])
        lora_a = scales[start:end, np.newaxis] * np.stack(levels_a[start:end])
        lora_b = np.stack(levels_b[start:end], axis=1) * np.float32(B_SCALE)
        key = (int(record["layer"]), MODULES[record["module"]])
        pairs[key] = LoraPair(lora_a, np.ascontiguousarray(lora_b), float(record["scaling"]))
    return AdapterWeights(pairs)


class _Reader:
    """Takes records off the front of the file; what is not there is never read."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = HEADER_BYTES

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def records(self, kind: np.dtype[Any], count: int) -> Records:
        end = self._at + count * kind.itemsize
        if end > len(self._data):
            raise damaged("it is shorter than what it lists")
        found: Records = np.frombuffer(self._data, kind, count, self._at)
        self._at = end
        return found


def _check_modules(modules: Records, header: EncodedHeader) -> None:
    ranks = modules["rank"].astype(np.int64)
    order = modules["layer"].astype(np.int64) * len(MODULES) + modules["module"]
    if (
        (modules["module"] >= len(MODULES)).any()
        or (np.diff(order) <= 0).any()
        or (ranks < 1).any()
        or (ranks > MAX_RANK).any()
        or ranks.max() != header.rank
        or ranks.sum() != header.num_components
    ):
        raise damaged("its modules are out of range or order")
    for side in ("in", "out"):
        features = modules[side]
        if (
            (features < FEATURE_MULTIPLE).any()
            or (features > MAX_FEATURES).any()
            or (features % FEATURE_MULTIPLE).any()
        ):
            raise damaged("a module's size is out of range")
    scalings = modules["scaling"]
    if not (np.isfinite(scalings) & (scalings > 0)).all():
        raise damaged("a module's scaling is out of range")


def _read_codebooks(reader: _Reader, count: int) -> Codebooks:
    directory = reader.records(CODEBOOK, count)
    factors, bits, windows = (directory[name].astype(int) for name in ("factor", "bits", "window"))
    if (
        (factors > FACTOR_B).any()
        or (bits < 1).any()
        or (bits > MAX_BITS).any()
        or (windows < np.maximum(bits, MIN_WINDOW)).any()
        or (windows > MAX_WINDOW).any()
        or directory["reserved"].any()
        or (np.diff(factors * (MAX_BITS + 1) + bits) <= 0).any()
    ):
        raise damaged("its codebooks are out of range or order")
    codebooks: Codebooks = {}
    for record in directory:
        table = reader.records(np.dtype("i1"), 1 << int(record["window"]))
        if (table < -MAX_LEVEL).any():
            raise damaged("a codebook holds a level out of range")
        codebooks[int(record["factor"]), int(record["bits"])] = Codebook(int(record["bits"]), table)
    return codebooks


def _check_components(components: Records, codebooks: Codebooks) -> None:
    scales = components["scale"].astype(np.float32)
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise damaged("a component's scale is out of range")
    for factor, name in ((FACTOR_A, "bits_a"), (FACTOR_B, "bits_b")):
        if any((factor, int(bits)) not in codebooks for bits in np.unique(components[name])):
            raise damaged("a component has no codebook")


def _look_up(
    runs: Runs, payload: NDArray[np.uint8], codebooks: Codebooks
) -> list[NDArray[np.int8]]:
    """The levels of each run."""
    levels: list[NDArray[np.int8]] = [np.empty(0, np.int8)] * len(runs.bits)
    for members in alike(runs.factors, runs.bits, runs.lengths):
        codebook = codebooks[int(runs.factors[members[0]]), int(runs.bits[members[0]])]
        decoded = look_up(payload[runs.places(members)], codebook)
        for member, run in zip(members, decoded, strict=True):
            levels[member] = run
    return levels
