"""Packs tiny random models: `python native_models.py FOLDER` writes one file for each family."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from edgelora_native.encoder_packing import (
    EncoderLayer,
    EncoderShape,
    Linear,
    Norm,
    RowTable,
    write_packed_encoder,
)
from edgelora_native.matrices import Matrix, quantise4, quantise8, quantise_symmetric, to_half
from edgelora_native.packing import Layer, ModelShape, write_packed

LLAMA = ModelShape(
    vocab_size=256,
    hidden_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_size=32,
    feed_forward_size=96,
    max_context_tokens=128,
    norm_epsilon=1e-5,
)
QWEN = ModelShape(
    vocab_size=272,
    hidden_size=96,
    num_layers=3,
    num_heads=7,
    num_kv_heads=1,
    head_size=64,
    feed_forward_size=160,
    max_context_tokens=128,
    norm_epsilon=1e-6,
    attention_factor=1.2,
)
SMALLEST = ModelShape(
    vocab_size=16,
    hidden_size=32,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_size=32,
    feed_forward_size=32,
    max_context_tokens=64,
    norm_epsilon=1e-5,
)

Rounding = Callable[[np.ndarray], Matrix]
PRODUCTS = ("head", "embedding", "qkv", "output", "gate_up", "down")

_SYMMETRIC = {bits: partial(quantise_symmetric, bits=bits) for bits in (4, 5, 6)}
_4 = dict.fromkeys(PRODUCTS, quantise4)
LLAMA_KINDS: Mapping[str, Rounding] = {**_4, "head": quantise8}
QWEN_KINDS: Mapping[str, Rounding] = {**LLAMA_KINDS, "qkv": quantise8}
SYMMETRIC_KINDS: Mapping[str, Rounding] = {
    "head": _SYMMETRIC[6],
    "embedding": _SYMMETRIC[4],
    "qkv": _SYMMETRIC[5],
    "output": _SYMMETRIC[4],
    "gate_up": _SYMMETRIC[6],
    "down": _SYMMETRIC[5],
}
HALF_KINDS: Mapping[str, Rounding] = dict.fromkeys(PRODUCTS, to_half)
SMALLEST_QWEN_KINDS: Mapping[str, Rounding] = {
    **SYMMETRIC_KINDS,
    "embedding": to_half,
    "down": to_half,
}


BERT = EncoderShape(
    vocab_size=50,
    hidden_size=96,
    num_layers=2,
    num_heads=3,
    feed_forward_size=160,
    max_context_tokens=40,
    norm_epsilon=1e-12,
    gelu_by_tanh=False,
)
BERT_64 = EncoderShape(
    vocab_size=50,
    hidden_size=128,
    num_layers=1,
    num_heads=2,
    feed_forward_size=224,
    max_context_tokens=33,
    norm_epsilon=1e-12,
    gelu_by_tanh=True,
)
SMALLEST_BERT = EncoderShape(
    vocab_size=3,
    hidden_size=32,
    num_layers=1,
    num_heads=1,
    feed_forward_size=32,
    max_context_tokens=4,
    norm_epsilon=1e-5,
    gelu_by_tanh=False,
)


def write_model(
    path: Path, shape: ModelShape, kinds: Mapping[str, Rounding], *, is_qwen: bool
) -> None:
    """Packs random weights, those of PRODUCTS in their kinds.

    Qwen models have biases, norms of query and key, and an untied head.
    """
    rng = np.random.default_rng(5)

    def values(*sizes: int) -> np.ndarray:
        return rng.normal(0, 0.2, sizes).astype(np.float32)

    def norm(size: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, size).astype(np.float32)

    def layer() -> Layer:
        hidden, inner = shape.hidden_size, shape.feed_forward_size
        query, key = shape.num_heads * shape.head_size, shape.num_kv_heads * shape.head_size
        return Layer(
            attention_norm=norm(hidden),
            query=kinds["qkv"](values(query, hidden)),
            key=kinds["qkv"](values(key, hidden)),
            value=kinds["qkv"](values(key, hidden)),
            output=kinds["output"](values(hidden, query)),
            feed_forward_norm=norm(hidden),
            gate=kinds["gate_up"](values(inner, hidden)),
            up=kinds["gate_up"](values(inner, hidden)),
            down=kinds["down"](values(hidden, inner)),
            qkv_bias=values(query + 2 * key) if is_qwen else None,
            query_norm=norm(shape.head_size) if is_qwen else None,
            key_norm=norm(shape.head_size) if is_qwen else None,
        )

    head = values(shape.vocab_size, shape.hidden_size)
    pairs = np.arange(0, shape.head_size, 2, dtype=np.float32) / shape.head_size
    write_packed(
        path,
        shape,
        head=kinds["head"](head),
        final_norm=norm(shape.hidden_size),
        embedding=kinds["embedding"](values(*head.shape)) if is_qwen else None,
        inverse_frequencies=(1.0 / 10000.0**pairs).astype(np.float32),
        layers=[layer() for _ in range(shape.num_layers)],
    )


def write_encoder(path: Path, shape: EncoderShape, *, has_pooler: bool) -> None:
    """Packs an encoder with random weights."""
    rng = np.random.default_rng(5)
    hidden, inner = shape.hidden_size, shape.feed_forward_size

    def values(*sizes: int) -> np.ndarray:
        return rng.normal(0, 0.2, sizes).astype(np.float32)

    def linear(rows: int, columns: int) -> Linear:
        return Linear(quantise8(values(rows, columns)), values(rows))

    def norm() -> Norm:
        return Norm(rng.uniform(0.5, 1.5, hidden).astype(np.float32), values(hidden))

    def factors() -> np.ndarray:
        return rng.uniform(0.5, 2.0, hidden).astype(np.float32)

    def layer() -> EncoderLayer:
        return EncoderLayer(
            factors=factors(),
            query=linear(hidden, hidden),
            key=linear(hidden, hidden),
            value=linear(hidden, hidden),
            attention_output=linear(hidden, hidden),
            attention_norm=norm(),
            intermediate_factors=factors(),
            intermediate=linear(inner, hidden),
            output=linear(hidden, inner),
            output_norm=norm(),
        )

    write_packed_encoder(
        path,
        shape,
        words=RowTable(quantise8(values(shape.vocab_size, hidden))),
        positions=values(shape.max_context_tokens, hidden),
        embedding_norm=norm(),
        pooler=linear(hidden, hidden) if has_pooler else None,
        layers=[layer() for _ in range(shape.num_layers)],
    )


def main(folder: Path) -> None:
    """Writes models of every kind of matrix, and the smallest ones, which seed the fuzzers."""
    write_encoder(folder / "bert.encoder", BERT, has_pooler=True)
    write_encoder(folder / "bert-64.encoder", BERT_64, has_pooler=False)
    write_encoder(folder / "smallest-bert.encoder", SMALLEST_BERT, has_pooler=True)
    for name, shape, kinds, is_qwen in (
        ("llama", LLAMA, LLAMA_KINDS, False),
        ("qwen", QWEN, QWEN_KINDS, True),
        ("symmetric", LLAMA, SYMMETRIC_KINDS, False),
        ("half", LLAMA, HALF_KINDS, False),
        ("smallest-llama", SMALLEST, LLAMA_KINDS, False),
        ("smallest-qwen", SMALLEST, SMALLEST_QWEN_KINDS, True),
    ):
        write_model(folder / f"{name}.edgelora", shape, kinds, is_qwen=is_qwen)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
