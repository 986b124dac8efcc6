"""First inputs for the fuzz targets of services/inference/native/fuzz."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.encoded_adapters import encoded_for

_HEADER_BYTES = 64
_ENTRY_BYTES = 32
_LOAD, _UNLOAD, _RUN = 0, 1, 2


def write_files(folder: Path, models: Sequence[Path]) -> None:
    """Writes whole models, cut ones and ones whose numbers are at their ends, for fuzz/open.cpp."""
    folder.mkdir()
    for model in models:
        data = model.read_bytes()
        (folder / model.stem).write_bytes(data)
        for size in (0, 7, _HEADER_BYTES, _HEADER_BYTES + 4 * _ENTRY_BYTES, len(data) - 1):
            (folder / f"{model.stem}-cut-{size}").write_bytes(data[:size])
        for at in range(8, _HEADER_BYTES, 4):
            for value in (0, 1, 2**31, 2**32 - 1):
                changed = data[:at] + struct.pack("<I", value) + data[at + 4 :]
                (folder / f"{model.stem}-{at}-{value}").write_bytes(changed)
        for at in range(_HEADER_BYTES, _HEADER_BYTES + 4 * _ENTRY_BYTES, 8):
            changed = data[:at] + struct.pack("<Q", 2**64 - 64) + data[at + 8 :]
            (folder / f"{model.stem}-table-{at}").write_bytes(changed)


def write_calls(folder: Path) -> None:
    """Writes calls that are in order, and with numbers that are not, for fuzz/step.cpp."""
    folder.mkdir()
    batch = _run(_chunk([1, 2, 3], 0, [0], [(0, 1.0)]), _chunk([4], 0, [1], [(1, 0.5)]))
    decode = _run(_chunk([5], 3, [0], [(0, 1.0)]), _chunk([6], 1, [1], [(1, 0.5), (0, -1.0)]))
    base = _run(_chunk(list(range(15)), 0, [2, 3], []), _chunk([7], 0, [4], []))
    for name, scaling in (("plain", 1.0), ("huge", 3e38), ("nan", float("nan")), ("tiny", 1e-38)):
        for module in range(7):
            first = _load(0, _pair(0, module, 3, scaling), _pair(0, (module + 1) % 7, 1, 1.0))
            second = _load(1, _pair(0, module, 18, 0.5))
            calls = first + second + batch + decode + bytes([_UNLOAD, 0]) + base + decode
            (folder / f"{name}-{module}").write_bytes(calls)


def write_encoded(folder: Path) -> None:
    """Writes encoded adapters that are in order, and cut ones, for fuzz/encoded.cpp."""
    folder.mkdir()
    for max_rank in (1, 3, 17, 24):
        data = encoded_for("smallest", max_rank, max_rank)
        (folder / f"rank-{max_rank}").write_bytes(data)
        for size in (0, 127, 128, len(data) - 1):
            (folder / f"rank-{max_rank}-cut-{size}").write_bytes(data[:size])


def _pair(layer: int, module: int, rank: int, scaling: float) -> bytes:
    factors = struct.pack("<6f", 0.5, -0.25, 0.125, 0.1, 1.0, -0.5)
    return struct.pack("<3bf", layer, module, rank, scaling) + factors


def _load(slot: int, *pairs: bytes) -> bytes:
    return struct.pack("<BbB", _LOAD, slot, len(pairs)) + b"".join(pairs)


def _chunk(
    tokens: Sequence[int], start: int, blocks: Sequence[int], uses: Sequence[tuple[int, float]]
) -> bytes:
    parts = [bytes([len(tokens), *tokens, start, len(blocks), *blocks, len(uses)])]
    parts += [struct.pack("<bf", slot, weight) for slot, weight in uses]
    return b"".join(parts) + b"\x01"


def _run(*chunks: bytes) -> bytes:
    return bytes([_RUN, len(chunks)]) + b"".join(chunks) + b"\x00"
