"""GGUF quantisations that the native core can keep (layouts: ggml's ggml-common.h)."""

from __future__ import annotations

import numpy as np
from edgelora_native.matrices import GROUP, Matrix4, Matrix8
from numpy.typing import NDArray

from edgelora.toolchain.gguf_tensor import GgufTensor
from edgelora.toolchain.model_source import SourceTensor

_SUPER = 8
"""Groups of 32 in a super-block of Q4_K."""


def keep_blocks(tensor: SourceTensor) -> Matrix4 | Matrix8 | None:
    """Returns a matrix as it is stored, or None when its quantisation has no place in the core.

    Q4_0, Q4_1 and Q8_0 are kept exactly. Of Q4_K the 4-bit values are; the scale and minimum of a
    group, which it makes from a product with a 6-bit number, are rounded to half precision (an
    error of at most 2^-11 of each).
    """
    if not isinstance(tensor, GgufTensor):
        return None
    match tensor.kind:
        case "Q4_0":
            return _q4_0(_blocks(tensor, 18))
        case "Q4_1":
            return _q4_1(_blocks(tensor, 20))
        case "Q8_0":
            return _q8_0(_blocks(tensor, 34))
        case "Q4_K":
            return _q4_k(_blocks(tensor, 144))
    return None


def _blocks(tensor: GgufTensor, block_bytes: int) -> NDArray[np.uint8]:
    """[rows, blocks, bytes of a block]."""
    rows = np.ascontiguousarray(tensor.stored())
    return rows.reshape(len(rows), -1, block_bytes)


def _half(blocks: NDArray[np.uint8], at: int) -> NDArray[np.float16]:
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]


def _nibbles(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The low halves of 16 bytes are the first 16 values of a group, the high halves the rest."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _q4_0(blocks: NDArray[np.uint8]) -> Matrix4:
    scale = _half(blocks, 0)
    # scale * (value - 8); 8 * scale is exact in half precision unless it overflows.
    return Matrix4(scale, scale * np.float16(-8), _nibbles(blocks[..., 2:]))


def _q4_1(blocks: NDArray[np.uint8]) -> Matrix4:
    return Matrix4(_half(blocks, 0), _half(blocks, 2), _nibbles(blocks[..., 4:]))


def _q8_0(blocks: NDArray[np.uint8]) -> Matrix8:
    return Matrix8(_half(blocks, 0), np.ascontiguousarray(blocks[..., 2:]).view(np.int8))


def _q4_k(blocks: NDArray[np.uint8]) -> Matrix4:
    """Eight groups share a scale of their 6-bit scales and one of their 6-bit minima."""
    rows = len(blocks)
    packed = blocks[..., 4:16]
    low, high, mixed = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scales = np.concatenate([low & 63, (mixed & 15) | (low >> 6 << 4)], axis=-1)
    minima = np.concatenate([high & 63, (mixed >> 4) | (high >> 6 << 4)], axis=-1)
    scale = _half(blocks, 0).astype(np.float32)[..., None] * scales
    minimum = -_half(blocks, 2).astype(np.float32)[..., None] * minima
    # 32 bytes hold two groups: the low halves one, the high halves the next.
    pairs = blocks[..., 16:].reshape(*blocks.shape[:2], _SUPER // 2, 1, GROUP)
    values = np.concatenate([pairs & 15, pairs >> 4], axis=-2)
    return Matrix4(
        scale.astype(np.float16).reshape(rows, -1),
        minimum.astype(np.float16).reshape(rows, -1),
        values.reshape(rows, -1, GROUP),
    )
