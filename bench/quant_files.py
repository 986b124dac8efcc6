"""Files of quantised models: a float32 GGUF of any source, and what the matrices of a file take."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from bench.random_gguf import copy_tokenizer
from bench.result import BenchError
from edgelora.toolchain.gguf_source import LAYER_NAMES
from edgelora.toolchain.gguf_tensor import undo_rotary_order
from edgelora.toolchain.model_source import ModelSource

_PACKED_HEADER = struct.Struct("<8s10I2fQ")
_PACKED_ENTRY = struct.Struct("<4I2Q")
_PACKED_KINDS = {
    2: "4 bit with minimum",
    3: "8 bit",
    4: "4 bit",
    5: "5 bit",
    6: "6 bit",
    7: "bfloat16",
}
"""As `edgelora_native.tensor_writer` numbers them."""
_GGUF_NAMES = {path: name for name, path in LAYER_NAMES.items()}
_GGUF_OTHER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """What the matrices of a file take; norms, a thousandth of it, are left out everywhere."""

    num_weights: int
    num_bytes: int
    kinds: Mapping[str, int]
    """Kind -> weights of that kind."""

    @property
    def bits_per_weight(self) -> float:
        """Scales and minima shared out."""
        return 8 * self.num_bytes / self.num_weights

    @property
    def kinds_text(self) -> str:
        """Kinds with their share of the weights, the most frequent first."""
        ordered = sorted(self.kinds.items(), key=lambda item: -item[1])
        return ", ".join(f"{kind} {count / self.num_weights:.0%}" for kind, count in ordered)


def gguf_matrices(file: Path) -> Matrices:
    """Looks at a GGUF file."""
    kinds: Counter[str] = Counter()
    num_bytes = 0
    for tensor in gguf.GGUFReader(file).tensors:
        if len(tensor.shape) > 1:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
            num_bytes += int(tensor.n_bytes)
    return Matrices(num_weights=kinds.total(), num_bytes=num_bytes, kinds=kinds)


def packed_matrices(file: Path) -> Matrices:
    """Looks at a packed file of the native core."""
    kinds: Counter[str] = Counter()
    num_bytes = 0
    with file.open("rb") as opened:
        header_bytes = _PACKED_HEADER.unpack(opened.read(_PACKED_HEADER.size))[2]
        table = opened.read(header_bytes - _PACKED_HEADER.size)
    for kind, rows, columns, _, _, size in _PACKED_ENTRY.iter_unpack(table):
        if kind in _PACKED_KINDS:
            kinds[_PACKED_KINDS[kind]] += rows * columns
            num_bytes += size
    return Matrices(num_weights=kinds.total(), num_bytes=num_bytes, kinds=kinds)


def write_float32_gguf(model: ModelSource, vocabulary: Path, target: Path) -> None:
    """Writes a plain llama with the tokenizer of the GGUF file `vocabulary`.

    One tensor is in memory at a time. Raises BenchError for other models.
    """
    shape = model.shape
    if shape.family != "llama" or shape.rope_scaling is not None:
        raise BenchError("only plain llama models are written as GGUF")
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_block_count(shape.num_layers)
    writer.add_context_length(shape.max_context_tokens)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.rms_norm_eps)
    writer.add_vocab_size(shape.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    copy_tokenizer(gguf.GGUFReader(vocabulary), writer)
    for name, size in shape.tensors().items():
        count = int(np.prod(size)) * 4
        writer.add_tensor_info(_gguf_name(name), size, np.dtype(np.float32), count)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    heads = {"q_proj": shape.num_heads, "k_proj": shape.num_kv_heads}
    for name in shape.tensors():
        values = model.tensors[name].float32()
        module = name.split(".")[-2]
        if module in heads:
            # GGUF's llama has rotary pairs side by side.
            values = values[np.argsort(undo_rotary_order(len(values), heads[module]))]
        writer.write_tensor_data(np.ascontiguousarray(values))
    writer.close()


def _gguf_name(name: str) -> str:
    if name in _GGUF_OTHER_NAMES:
        return _GGUF_OTHER_NAMES[name]
    _, _, layer, path = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{_GGUF_NAMES[path]}.weight"
