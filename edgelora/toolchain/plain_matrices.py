"""Matrices rounded without calibration, each group by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from edgelora_native.matrices import (
    Matrix,
    Matrix4,
    Matrix8,
    concatenate,
    quantise4,
    quantise8,
    to_half,
)
from numpy.typing import NDArray

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_blocks import keep_blocks
from edgelora.toolchain.model_source import SourceTensor, check_finite

_PIECE_ROWS = 4096
"""Rows rounded at a time: a vocabulary in fp32 can be gigabytes."""
_8_BIT = ("q_proj", "k_proj", "v_proj", "embed_tokens", "lm_head")


def plain_matrix(name: str, tensor: SourceTensor) -> Matrix:
    """Rounds a tensor, by its Hugging Face name, or keeps it.

    4-bit groups of 32 (Q4_0, Q4_1, Q4_K) and Q8_0 stay as they are. Of everything else query, key,
    value, head and embedding become 8-bit, the other matrices 4-bit. Raises ToolchainError for
    values that are not finite, or beyond half precision.
    """
    rounded = quantise8 if name.split(".")[-2] in _8_BIT else quantise4
    return _kept(name, tensor) or _rounded(name, tensor, rounded)


def half_matrix(name: str, tensor: SourceTensor) -> Matrix:
    """Rounds a tensor to bfloat16. Raises ToolchainError as `plain_matrix`."""
    return _rounded(name, tensor, to_half)


def _kept(name: str, tensor: SourceTensor) -> Matrix4 | Matrix8 | None:
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        matrix = keep_blocks(tensor)
    if matrix is None:
        return None
    check_finite(name, matrix.scale)
    if isinstance(matrix, Matrix4):
        check_finite(name, matrix.minimum)
    return matrix


def _rounded(
    name: str, tensor: SourceTensor, rounded: Callable[[NDArray[np.float32]], Matrix]
) -> Matrix:
    return concatenate([rounded(piece) for piece in _pieces(name, tensor)])


def _pieces(name: str, tensor: SourceTensor) -> Iterator[NDArray[np.float32]]:
    for start in range(0, tensor.shape[0], _PIECE_ROWS):
        values = tensor.float32(slice(start, start + _PIECE_ROWS))
        check_finite(name, values)
        if np.abs(values).max() > np.finfo(np.float16).max:
            raise ToolchainError(f"tensor {name} holds values beyond half precision: not supported")
        yield values
