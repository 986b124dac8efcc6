"""What the packed file keeps of a GGUF quantisation is what the source stands for."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from edgelora.toolchain.gguf_tensor import GgufTensor, undo_rotary_order

matrices = pytest.importorskip("edgelora_native.matrices", reason="needs the native core")
from edgelora.toolchain.gguf_blocks import keep_blocks  # noqa: E402 - imports the native core

Matrix4, Matrix8 = matrices.Matrix4, matrices.Matrix8
ROWS, COLUMNS = 48, 512
Type = gguf.GGMLQuantizationType


def tensor(kind: Type, data: np.ndarray, order: np.ndarray | None = None) -> GgufTensor:
    return GgufTensor("w", kind.name, (ROWS, COLUMNS), data, order)


def quantised(kind: Type) -> GgufTensor:
    values = np.random.default_rng(3).normal(0, 0.05, (ROWS, COLUMNS)).astype(np.float32)
    values[:, 7] *= 12  # outliers, as real matrices have
    return tensor(kind, gguf.quants.quantize(values, kind))


def random_blocks(kind: Type, halves_at: tuple[int, ...]) -> GgufTensor:
    """Any bytes are valid blocks but for the half-precision numbers in them."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(4)
    blocks = rng.integers(0, 256, (ROWS, COLUMNS // values, size), dtype=np.uint8)
    for at in halves_at:
        scale = rng.uniform(1e-4, 1e-3, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scale[..., None].view(np.uint8)
    return tensor(kind, blocks.reshape(ROWS, -1))


@pytest.mark.parametrize(
    ("kind", "matrix"),
    [(Type.Q4_0, Matrix4), (Type.Q4_1, Matrix4), (Type.Q8_0, Matrix8)],
)
def test_blocks_of_32_are_kept_bit_for_bit(kind: Type, matrix: type):
    source = quantised(kind)
    kept = keep_blocks(source)
    assert isinstance(kept, matrix)
    assert np.array_equal(kept.dequantise(), source.float32())


def test_q4_k_is_kept_within_the_rounding_of_scale_and_minimum():
    source = random_blocks(Type.Q4_K, (0, 2))
    kept = keep_blocks(source)
    assert isinstance(kept, Matrix4)
    exact = source.float32()
    # Every value is scale * (0..15) + minimum; both are off by at most 2^-11 of themselves.
    scale, minimum = (np.abs(x.astype(np.float32)) for x in (kept.scale, kept.minimum))
    bound = np.repeat((15 * scale + minimum) * 2.0**-11 + 2.0**-25, 32, axis=1)
    assert (np.abs(kept.dequantise() - exact) <= 1.001 * bound).all()
    # A wrong scale or a swapped pair of groups would be off by whole steps.
    assert np.abs(kept.dequantise() - exact).max() < 0.01 * scale.max()


@pytest.mark.parametrize(
    ("kind", "halves_at"),
    [(Type.Q5_K, (0, 2)), (Type.Q6_K, (208,)), (Type.Q5_0, (0,)), (Type.Q5_1, (0, 2))],
)
def test_other_quantisations_are_read_and_not_kept(kind: Type, halves_at: tuple[int, ...]):
    source = random_blocks(kind, halves_at)
    assert keep_blocks(source) is None
    whole = source.float32()
    assert whole.shape == (ROWS, COLUMNS)
    assert np.array_equal(source.float32(slice(16, 32)), whole[16:32])


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16])
def test_plain_numbers_are_read(kind: Type):
    values = np.random.default_rng(3).normal(0, 0.05, (ROWS, COLUMNS)).astype(np.float32)
    read = tensor(kind, gguf.quants.quantize(values, kind)).float32()
    rounding = 0.0 if kind == Type.F32 else 1.0
    assert np.allclose(read, values, rtol=rounding * 2.0**-8, atol=rounding * 2.0**-25)
    assert keep_blocks(tensor(kind, values)) is None


def test_rows_of_kept_blocks_are_taken_in_order_too():
    source = quantised(Type.Q4_1)
    order = undo_rotary_order(ROWS, 3)
    assert order[:3].tolist() == [0, 2, 4]
    assert order[8:10].tolist() == [1, 3]
    turned = tensor(Type.Q4_1, source.data, order)
    kept = keep_blocks(turned)
    assert kept is not None
    assert np.array_equal(kept.dequantise(), source.float32()[order])
    assert np.array_equal(turned.float32(slice(10, 20)), source.float32()[order[10:20]])


def test_a_scale_beyond_half_precision_shows():
    """It becomes infinite, which preparation refuses, instead of a wrong number."""
    blocks = np.zeros((ROWS, COLUMNS // 32, 18), np.uint8)
    blocks[..., :2] = np.array([60000.0], np.float16).view(np.uint8)
    with np.errstate(over="ignore"):
        kept = keep_blocks(tensor(Type.Q4_0, blocks.reshape(ROWS, -1)))
    assert isinstance(kept, Matrix4)
    assert np.isinf(kept.minimum).all()
