"""Kinds of weight matrices: what rounding promises, and that the core reads what was written."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support import native_core

matrices = pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from edgelora_native.packing import Layer, ModelShape, write_packed  # noqa: E402

from tests.support.packed_file import PackedFile  # noqa: E402

ROUNDINGS = {
    "4": matrices.quantise4,
    "8": matrices.quantise8,
    **{f"symmetric-{n}": partial(matrices.quantise_symmetric, bits=n) for n in (4, 5, 6)},
    "half": matrices.to_half,
}
SIZE = 64
SHAPE = ModelShape(
    vocab_size=SIZE,
    hidden_size=SIZE,
    num_layers=1,
    num_heads=2,
    num_kv_heads=2,
    head_size=32,
    feed_forward_size=SIZE,
    max_context_tokens=64,
    norm_epsilon=0.0,
)


def random(rows: int, columns: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(0, 0.3, (rows, columns)).astype(np.float32)


def write(path: Path, embedding, products) -> None:
    """A model that says the normalised embedding of a token when `products` are zeros."""
    square = products(SIZE)
    ones = np.ones(SIZE, np.float32)
    write_packed(
        path,
        SHAPE,
        head=matrices.to_half(np.eye(SIZE, dtype=np.float32)),
        final_norm=ones,
        embedding=embedding,
        inverse_frequencies=np.ones(16, np.float32),
        layers=[
            Layer(
                attention_norm=ones,
                query=square,
                key=square,
                value=square,
                output=square,
                feed_forward_norm=ones,
                gate=square,
                up=square,
                down=square,
            )
        ],
    )


def zeros(rounded, rows: int):
    return rounded(np.zeros((rows, SIZE), np.float32))


@pytest.mark.parametrize("name", ROUNDINGS)
def test_the_file_holds_what_the_matrix_stands_for(tmp_path, name):
    matrix = ROUNDINGS[name](random(SIZE))
    write(tmp_path / "m.edgelora", matrix, lambda rows: ROUNDINGS[name](random(rows)))
    packed = PackedFile.read(tmp_path / "m.edgelora")
    assert type(packed.model[2]) is type(matrix)
    expected = matrix.dequantise()
    for tensor, weights in packed.weights(SIZE).items():
        if "proj" in tensor or "embed" in tensor:
            np.testing.assert_array_equal(weights, expected, err_msg=tensor)


EMBEDDINGS = """
import json, pathlib, sys
import numpy as np
import edgelora_native as n
limits = n.Limits(num_kv_blocks=64, max_loras=0, max_lora_rank=1, max_step_tokens=64, num_threads=1)
logits = {}
for path in sys.argv[1:]:
    engine = n.Engine(pathlib.Path(path), limits)
    logits[pathlib.Path(path).stem] = engine.forward([
        n.Chunk(token_ids=np.array([token], dtype=np.int32), start_position=0, block_table=[token],
                adapters=(), needs_logits=True)
        for token in range(64)]).tolist()
print(json.dumps(logits))
"""


def test_the_core_reads_the_embedding_of_every_kind(package, tmp_path):
    expected, paths = {}, []
    for name, rounded in ROUNDINGS.items():
        matrix = rounded(random(SIZE))
        paths.append(tmp_path / f"{name}.edgelora")
        write(paths[-1], matrix, partial(zeros, rounded))
        rows = matrix.dequantise()
        expected[name] = rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True))
    said = json.loads(native_core.run_python(package, "-c", EMBEDDINGS, *paths).stdout)
    for name, rows in expected.items():
        np.testing.assert_allclose(said[name], rows, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("bits", [4, 5, 6])
def test_symmetric_numbers_stay_in_range_and_near(bits):
    weights = random(48, 512)
    weights[:, 7] *= 12  # outliers, as real matrices have
    matrix = matrices.quantise_symmetric(weights, bits)
    levels = 2 ** (bits - 1)
    assert matrix.values.min() == -levels
    assert matrix.values.max() <= levels - 1
    # Never worse than the full range, whose step is that of the largest magnitude.
    groups = weights.reshape(48, 16, 32)
    extreme = np.take_along_axis(groups, np.abs(groups).argmax(-1)[..., None], -1)
    step = (-extreme / levels).astype(np.float16).astype(np.float32)
    full = np.clip(np.rint(groups / step), -levels, levels - 1) * step
    plain = np.square(full - groups).sum(-1)
    ours = np.square(matrix.dequantise().reshape(groups.shape) - groups).sum(-1)
    assert (ours <= plain * (1 + 1e-5)).all()
    assert ours.sum() < 0.97 * plain.sum()


@pytest.mark.parametrize("name", ROUNDINGS)
def test_zeros_stay_zeros(name):
    assert not zeros(ROUNDINGS[name], 16).dequantise().any()


@pytest.mark.parametrize("bits", [4, 5, 6])
def test_a_symmetric_grid_is_found_again(bits):
    levels = 2 ** (bits - 1)
    rng = np.random.default_rng(2)
    values = rng.integers(-levels, levels, (16, 4, 32)).astype(np.int8)
    values[..., 0] = -levels
    scale = rng.uniform(-1, 1, (16, 4)).astype(np.float16)
    grid = matrices.SymmetricMatrix(bits, scale, values).dequantise()
    np.testing.assert_array_equal(matrices.quantise_symmetric(grid, bits).dequantise(), grid)


@pytest.mark.parametrize("bits", [3, 7, 8])
def test_other_numbers_of_bits_are_refused(bits):
    with pytest.raises(ValueError, match="4, 5 or 6"):
        matrices.quantise_symmetric(random(16), bits)


def test_bfloat16_is_kept_and_others_are_rounded_to_the_nearest_even():
    ones = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF], np.uint32)
    weights = np.resize(ones, (16, 32)).view(np.float32)
    half = matrices.to_half(weights)
    assert half.values[0, :5].tolist() == [0x3F80, 0x3F80, 0x3F82, 0x3F81, 0xBF80]
    np.testing.assert_array_equal(matrices.to_half(half.dequantise()).values, half.values)


def test_parts_of_different_kinds_become_the_widest():
    order = ["symmetric-4", "4", "symmetric-5", "symmetric-6", "8", "half"]
    parts = [ROUNDINGS[name](random(16)) for name in order]
    for number, widest in enumerate(parts):
        joined = matrices.concatenate(parts[number::-1])
        assert joined.kind == widest.kind
        np.testing.assert_array_equal(joined.dequantise()[:16], widest.dequantise())


@pytest.mark.parametrize("name", ROUNDINGS)
def test_padding_adds_zeros_and_pairs_interleave(name):
    rounded = ROUNDINGS[name]
    padded = matrices.pad_rows(rounded(random(20)))
    assert padded.shape == (32, SIZE)
    assert not padded.dequantise()[20:].any()
    first, second = rounded(random(32)), rounded(-random(32))
    both = matrices.interleave_blocks(first, second).dequantise().reshape(2, 2, 16, SIZE)
    np.testing.assert_array_equal(both[:, 0].reshape(32, SIZE), first.dequantise())
    np.testing.assert_array_equal(both[:, 1].reshape(32, SIZE), second.dequantise())
