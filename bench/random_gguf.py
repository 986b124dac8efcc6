"""Llama-type models with random weights, written as GGUF Q4_0 a tensor at a time.

How fast an engine runs depends on the shape and format of the weights, not on their values. The
format is what llama.cpp's quantiser chooses for Q4_0: linear layers in Q4_0, the embedding, which
is the output head as well, in Q6_K, or in Q8_0 where rows are no multiple of 256. Block layouts:
ggml-common.h of github.com/ggml-org/ggml.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from bench.shapes import DecoderShape

Bytes = NDArray[np.uint8]

_WEIGHT_STD = 0.02
_Q4_LEVELS_STD = 4.2
_Q6_LEVELS_STD = 18.5
_Q8_LEVELS_STD = 73.9
"""Standard deviations of the whole numbers that are drawn."""
_Q6_SUBSCALE = 16
_TOKENIZER = "tokenizer."


def write_random_gguf(target: Path, shape: DecoderShape, *, vocabulary: Path, seed: int) -> None:
    """Writes `target` with the tokenizer of the GGUF file `vocabulary`.

    The file appears when it is complete. No more than one tensor is in memory.
    """
    reader = gguf.GGUFReader(vocabulary)
    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "llama")
    writer.add_block_count(shape.num_layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_feed_forward_length(shape.feed_forward_size)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_rope_freq_base(100_000.0)
    writer.add_rope_dimension_count(shape.hidden_size // shape.num_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    copy_tokenizer(reader, writer)
    vocab_size = len(reader.fields["tokenizer.ggml.tokens"].contents())
    tensors = list(_tensors(shape, vocab_size))
    for name, rows, columns, kind in tensors:
        data = _shape_of(rows, columns, kind)
        dtype = np.dtype(np.float32 if kind is GGMLQuantizationType.F32 else np.uint8)
        size = int(np.prod(data)) * dtype.itemsize
        writer.add_tensor_info(name, data, dtype, size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    draw = np.random.default_rng(seed)
    for _, rows, columns, kind in tensors:
        writer.write_tensor_data(_draw(rows, columns, kind, draw))
    writer.close()
    part.replace(target)


def copy_tokenizer(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    """Gives a file that is being written the tokenizer of another one."""
    for name, stored in reader.fields.items():
        if name.startswith(_TOKENIZER):
            kind = stored.types[0]
            inner = stored.types[-1] if kind is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, stored.contents(), kind, inner)


def _tensors(
    shape: DecoderShape, vocab_size: int
) -> Iterator[tuple[str, int, int, GGMLQuantizationType]]:
    """Name, rows, columns and type of every tensor, in the order of the file."""
    hidden, forward = shape.hidden_size, shape.feed_forward_size
    kv_size = hidden // shape.num_heads * shape.num_kv_heads
    q4, f32 = GGMLQuantizationType.Q4_0, GGMLQuantizationType.F32
    embedding = GGMLQuantizationType.Q8_0 if hidden % 256 else GGMLQuantizationType.Q6_K
    yield "token_embd.weight", vocab_size, hidden, embedding
    yield "output_norm.weight", 1, hidden, f32
    for layer in range(shape.num_layers):
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", 1, hidden, f32
        yield prefix + "attn_q.weight", hidden, hidden, q4
        yield prefix + "attn_k.weight", kv_size, hidden, q4
        yield prefix + "attn_v.weight", kv_size, hidden, q4
        yield prefix + "attn_output.weight", hidden, hidden, q4
        yield prefix + "ffn_norm.weight", 1, hidden, f32
        yield prefix + "ffn_gate.weight", forward, hidden, q4
        yield prefix + "ffn_up.weight", forward, hidden, q4
        yield prefix + "ffn_down.weight", hidden, forward, q4


def _shape_of(rows: int, columns: int, kind: GGMLQuantizationType) -> tuple[int, ...]:
    if kind is GGMLQuantizationType.F32:
        return (columns,)
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    return (rows, columns // block_size * block_bytes)


def _draw(
    rows: int, columns: int, kind: GGMLQuantizationType, draw: np.random.Generator
) -> NDArray[np.uint8] | NDArray[np.float32]:
    if kind is GGMLQuantizationType.F32:
        return np.ones(columns, dtype=np.float32)
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // block_size
    blocks = np.frombuffer(draw.bytes(count * block_bytes), dtype=np.uint8).copy()
    blocks = blocks.reshape(count, block_bytes)
    if kind is GGMLQuantizationType.Q4_0:
        # Values are stored as 0 to 15 for -8 to 7. Without -8 their mean is 0; else the same
        # direction would grow in every layer and drown all others.
        blocks[(blocks & 0x0F) == 0] |= 0x08
        blocks[(blocks & 0xF0) == 0] |= 0x80
        _put_scale(blocks[:, :2], _WEIGHT_STD / _Q4_LEVELS_STD)
    elif kind is GGMLQuantizationType.Q8_0:
        _put_scale(blocks[:, :2], _WEIGHT_STD / _Q8_LEVELS_STD)
    else:
        blocks[:, 192:208] = _Q6_SUBSCALE
        _put_scale(blocks[:, 208:], _WEIGHT_STD / _Q6_LEVELS_STD / _Q6_SUBSCALE)
    return blocks.reshape(_shape_of(rows, columns, kind))


def _put_scale(place: Bytes, scale: float) -> None:
    place[:] = np.array([scale], dtype="<f2").view(np.uint8)
