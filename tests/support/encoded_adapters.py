"""Random files in the form of docs/codec.md, and an independent, slow reading of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
DIGEST, BASE_DIGEST = "sha256:" + "ab" * 32, "sha256:" + "cd" * 32


def module_shapes(hidden: int, query: int, kv: int, inner: int) -> dict[str, tuple[int, int]]:
    """(out, in) of every module of a model with these sizes."""
    return {
        "q_proj": (query, hidden),
        "k_proj": (kv, hidden),
        "v_proj": (kv, hidden),
        "o_proj": (hidden, query),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }


NATIVE_MODELS = {
    "llama": (2, module_shapes(64, 128, 64, 96)),
    "qwen": (3, module_shapes(96, 448, 64, 160)),
    "smallest": (1, module_shapes(32, 32, 32, 32)),
}
"""Layers and shapes of the models of native_models.py."""

Factors = dict[tuple[int, str], tuple[NDArray[np.float32], NDArray[np.float32], float]]
"""A [rank, in], B [out, rank] and scaling by (layer, module)."""


def random_encoded(
    ranks: Mapping[tuple[int, str], int],
    shapes: Mapping[str, tuple[int, int]],
    seed: int = 1,
    *,
    digest: str = DIGEST,
    base_digest: str = BASE_DIGEST,
    scale: float = 0.004,
    has_only_ends: bool = False,
) -> bytes:
    """A file that keeps every rule, with every width of bits and window.

    `ranks`: of the modules, by (layer, module). `shapes`: (out, in) of a module. `scale`: about
    what a level of A stands for. `has_only_ends`: all levels are 127 or -127, so that rounding
    what the file means to bytes again changes nothing.
    """
    rng = np.random.default_rng(seed)
    windows = {(f, b): int(rng.integers(max(b, 2), 9)) for f in (0, 1) for b in range(1, 9)}
    keys = sorted(ranks, key=lambda key: (key[0], MODULES.index(key[1])))
    modules, components, payload = b"", b"", b""
    for layer, module in keys:
        out, in_ = shapes[module]
        rank = ranks[layer, module]
        scaling = float(rng.uniform(0.5, 2.0))
        modules += struct.pack("<HHIIIf", layer, MODULES.index(module), rank, in_, out, scaling)
        bits = rng.integers(1, 9, (2, rank))
        for a_bits, b_bits in bits.T:
            half = np.float16(scale * rng.uniform(0.5, 2.0))
            components += half.tobytes() + bytes([a_bits, b_bits])
        for factor, size in ((0, in_), (1, out)):
            for width in bits[factor]:
                payload += rng.bytes(size * int(width) // 8)
    codebooks, tables = b"", b""
    for (factor, bits), window in windows.items():
        codebooks += bytes([factor, bits, window, 0])
        levels = rng.integers(-127, 128, 1 << window)
        if has_only_ends:
            levels = rng.choice([-127, 127], 1 << window)
        tables += levels.astype(np.int8).tobytes()
    body = modules + components + codebooks + tables + payload + bytes(8)
    num_parameters = sum(ranks[key] * sum(shapes[key[1]]) for key in keys)
    header = struct.pack(
        "<8sIIIIQQIII12x",
        b"EDGELORQ",
        1,
        len(keys),
        sum(ranks.values()),
        len(windows),
        128 + len(body),
        num_parameters,
        max(ranks.values()),
        max(ranks.values()),
        800,
    )
    digests = bytes.fromhex(digest[7:]) + bytes.fromhex(base_digest[7:])
    return header + digests + body


def encoded_for(family: str, max_rank: int, seed: int = 1, *, has_only_ends: bool = False) -> bytes:
    """A file for a model of native_models.py: most modules, each of another rank."""
    num_layers, shapes = NATIVE_MODELS[family]
    keys = [(layer, module) for layer in range(num_layers) for module in shapes]
    ranks = {key: 1 + (7 * n + max_rank - 1) % max_rank for n, key in enumerate(keys) if n % 5 != 3}
    return random_encoded(ranks, shapes, seed, has_only_ends=has_only_ends)


def read_slowly(data: bytes) -> Factors:
    """What a file that keeps every rule means, bit by bit."""
    num_modules, num_components, num_codebooks = struct.unpack_from("<III", data, 12)
    modules = [struct.unpack_from("<HHIIIf", data, 128 + 20 * n) for n in range(num_modules)]
    at = 128 + 20 * num_modules
    components = [struct.unpack_from("<eBB", data, at + 4 * n) for n in range(num_components)]
    at += 4 * num_components
    books = [struct.unpack_from("<BBB", data, at + 4 * n) for n in range(num_codebooks)]
    at += 4 * num_codebooks
    tables: dict[tuple[int, int], NDArray[np.int8]] = {}
    for factor, bits, window in books:
        tables[factor, bits] = np.frombuffer(data, np.int8, 1 << window, at)
        at += 1 << window
    factors: Factors = {}
    for layer, module, rank, in_, out, scaling in modules:
        own, components = components[:rank], components[rank:]
        runs: Sequence[list[NDArray[np.float32]]] = ([], [])
        for factor, size in ((0, in_), (1, out)):
            for component in own:
                bits = component[1 + factor]
                num_bytes = size * bits // 8
                levels = _levels(data[at : at + num_bytes], bits, tables[factor, bits])
                runs[factor].append(levels)
                at += num_bytes
        scales = np.array([component[0] for component in own], np.float32)
        lora_a = scales[:, np.newaxis] * np.stack(runs[0])
        lora_b = np.ascontiguousarray((np.stack(runs[1]) / np.float32(128)).T)
        factors[layer, MODULES[module]] = (lora_a, lora_b, scaling)
    assert data[at:] == bytes(8)
    return factors


def _levels(run: bytes, bits: int, table: NDArray[np.int8]) -> NDArray[np.float32]:
    window = len(table).bit_length() - 1
    string = int.from_bytes(run, "little") << (window - bits)
    values = range(8 * len(run) // bits)
    indices = [string >> (value * bits) & ((1 << window) - 1) for value in values]
    return table[indices].astype(np.float32)
