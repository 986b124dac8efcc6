"""From an adapter's factors to the encoded form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.allocation import allocate
from edgelora.adapter_format.codec.components import ModuleComponents, decompose
from edgelora.adapter_format.codec.layout import (
    B_SCALE,
    CODEBOOK,
    COMPONENT,
    FACTOR_A,
    FACTOR_B,
    HEADER,
    HEADER_BYTES,
    LEVELS,
    MAGIC,
    MAX_BITS,
    MODULE,
    TAIL_BYTES,
    VERSION,
)
from edgelora.adapter_format.codec.quantiser import codebook_of, write_runs
from edgelora.adapter_format.codec.runs import Runs
from edgelora.adapter_format.digest import is_digest
from edgelora.adapter_format.weights import AdapterWeights
from edgelora.error_tree import AdapterRejectedError

_LEAST_SHARE = 0.75
"""Of a level's bits that go to values even where an adapter is so small that the rest counts."""
_HALF_MIN, _HALF_MAX = 2.0**-24, 65504.0


def encode(weights: AdapterWeights, *, digest: str, base_digest: str, level: float) -> bytes:
    """Encodes an adapter with at most `level` bits for each of its parameters.

    `level` is one of `LEVELS`; everything in the file counts, but an adapter of a few thousand
    parameters gets three quarters of its bits for values whatever the rest takes. The same bytes
    for the same adapter, numpy and processor.

    Raises AdapterRejectedError when all products are zero, and ValueError when the format has no
    room for a module (its features are no multiple of 32) or an argument is malformed.
    """
    if level not in LEVELS:
        raise ValueError(f"level has to be one of {LEVELS}")
    if not (is_digest(digest) and is_digest(base_digest)):
        raise ValueError("digest and base_digest have to be sha256: and 64 hex digits")
    modules = decompose(weights)
    if not modules:
        raise AdapterRejectedError(
            "the product of the factors of every module is zero: the adapter would change nothing",
            field="weights",
        )
    num_parameters = sum(pair.lora_a.size + pair.lora_b.size for pair in weights.pairs.values())
    modules, bits = _choose_bits(modules, level * num_parameters)
    ranks = np.array([len(module.sizes) for module in modules])
    num_in = np.array([module.inputs.shape[1] for module in modules])
    num_out = np.array([module.outputs.shape[1] for module in modules])
    runs = Runs.lay_out(ranks, num_in, num_out, bits)
    payload = np.zeros(runs.num_bytes + TAIL_BYTES, np.uint8)
    rows = [row for module in modules for row in module.inputs]
    rows += [row for module in modules for row in module.outputs]
    gain_a, gain_b = np.split(write_runs(rows, runs, payload), 2)
    sizes = np.concatenate([module.sizes for module in modules])
    scales, scalings = _split_scales(sizes * gain_a * gain_b / B_SCALE, ranks)

    components = np.zeros(len(sizes), COMPONENT)
    components["scale"] = scales
    components["bits_a"], components["bits_b"] = bits.T
    records = np.zeros(len(modules), MODULE)
    records["layer"] = [module.layer for module in modules]
    records["module"] = [module.module for module in modules]
    records["rank"] = ranks
    records["in"], records["out"] = num_in, num_out
    records["scaling"] = scalings
    books = [
        (factor, codebook_of(int(used)))
        for factor in (FACTOR_A, FACTOR_B)
        for used in np.unique(bits[:, factor])
    ]
    directory = np.array([(factor, book.bits, book.window, 0) for factor, book in books], CODEBOOK)
    body = b"".join(
        [
            records.tobytes(),
            components.tobytes(),
            directory.tobytes(),
            *(book.table.tobytes() for _, book in books),
            payload.tobytes(),
        ]
    )
    header = np.zeros(1, HEADER)
    header["magic"], header["version"] = MAGIC, VERSION
    header["modules"], header["components"] = len(modules), len(sizes)
    header["codebooks"] = len(books)
    header["file_bytes"] = HEADER_BYTES + len(body)
    header["parameters"] = num_parameters
    header["rank"], header["original_rank"] = ranks.max(), weights.max_rank
    header["level"] = round(level * 100)
    header["digest"] = bytes.fromhex(digest.removeprefix("sha256:"))
    header["base_digest"] = bytes.fromhex(base_digest.removeprefix("sha256:"))
    return header.tobytes() + body


def _choose_bits(
    modules: list[ModuleComponents], bits_in_all: float
) -> tuple[list[ModuleComponents], NDArray[np.int64]]:
    """Returns the modules with the components that are kept, and the bits of those."""
    ranks = [len(module.sizes) for module in modules]
    beside = 8 * (HEADER_BYTES + TAIL_BYTES + len(modules) * MODULE.itemsize)

    def allocate_beside(codebook_bits: int) -> NDArray[np.int64]:
        return allocate(
            np.concatenate([module.sizes for module in modules]) ** 2,
            np.repeat([module.inputs.shape[1] for module in modules], ranks),
            np.repeat([module.outputs.shape[1] for module in modules], ranks),
            # The largest of each module stays: what an adapter changes remains listed in full.
            np.concatenate([np.arange(rank) == 0 for rank in ranks]),
            max(bits_in_all - beside - codebook_bits, _LEAST_SHARE * bits_in_all),
        )

    # Which codebooks there are is known afterwards: first room for all, then for those used.
    chosen = allocate_beside(_codebook_bits(np.indices((MAX_BITS + 1, 2))[0]))
    reserved = _codebook_bits(chosen)
    roomier = allocate_beside(reserved)
    if _codebook_bits(roomier) <= reserved:
        chosen = roomier
    kept = chosen[:, 0] > 0
    parts = np.split(kept, np.cumsum(ranks)[:-1])
    return [
        ModuleComponents(
            module.layer,
            module.module,
            module.sizes[part],
            module.inputs[part],
            module.outputs[part],
        )
        for module, part in zip(modules, parts, strict=True)
    ], chosen[kept]


def _codebook_bits(chosen: NDArray[np.int64]) -> int:
    """Size of the codebooks that a choice of bits for components, [components, 2], needs."""
    used = [int(bits) for factor in chosen.T for bits in np.unique(factor) if bits > 0]
    return 8 * sum(CODEBOOK.itemsize + codebook_of(bits).table.size for bits in used)


def _split_scales(
    scales: NDArray[np.float64], ranks: NDArray[np.int64]
) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """Splits each component's scale into a half and its module's power of two."""
    starts = np.cumsum(ranks) - ranks
    largest = np.maximum.reduceat(scales, starts)
    exponents = np.clip(np.floor(np.log2(np.maximum(largest, 2.0**-126))), -126, 126)
    scalings = np.exp2(exponents)
    halves = np.clip(scales / np.repeat(scalings, ranks), _HALF_MIN, _HALF_MAX)
    return halves.astype(np.float16), scalings.astype(np.float32)
