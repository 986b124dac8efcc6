"""Reads a model from a GGUF file (github.com/ggml-org/ggml, docs/gguf.md)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_header import check_header
from edgelora.toolchain.gguf_metadata import GgufMetadata
from edgelora.toolchain.gguf_tensor import GgufTensor, undo_rotary_order
from edgelora.toolchain.gguf_tokenizer import GgufVocabulary
from edgelora.toolchain.model_source import ModelSource, match_tensors
from services.chassis.base_model import file_digest

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Modules of a layer: their name in GGUF -> their path in a Hugging Face layer."""
_OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
ROPE_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies, which some files carry as a tensor."""


def open_gguf(path: Path) -> ModelSource:
    """Opens a GGUF file. Raises ToolchainError for a damaged file and for what is not served."""
    fields, stored = _read(path)
    metadata = GgufMetadata.read(fields, path.name)
    vocabulary = GgufVocabulary.read(metadata.fields)
    factors = stored.pop(ROPE_FACTORS, None)
    shape = metadata.shape(
        vocab_size=len(vocabulary.tokens),
        tied_embeddings="output.weight" not in stored,
        rope_factors=None if factors is None else np.asarray(factors.data, np.float32).tolist(),
    )
    tensors = [_tensor(tensor, metadata.architecture, shape) for tensor in stored.values()]
    return ModelSource(
        digest=file_digest(path),
        shape=shape,
        config=shape.config(
            bos=vocabulary.token_id("bos"),
            eos=vocabulary.end_ids(),
            pad=vocabulary.token_id("padding"),
        ),
        tokenizer=vocabulary.files(),
        tensors=match_tensors(shape, {_our_name(tensor.name): tensor for tensor in tensors}),
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Key-value pairs, and tensors by name."""
    check_header(path)
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        return fields, {tensor.name: tensor for tensor in reader.tensors}
    except (ValueError, LookupError, ArithmeticError, TypeError, struct.error) as error:
        raise ToolchainError(f"{path.name} is cut or damaged: download it again") from error


def _tensor(tensor: Any, architecture: str, shape: DecoderShape) -> GgufTensor:
    size = tuple(int(length) for length in reversed(tensor.shape))
    order = None
    # Only files of the llama architecture have their rotary pairs side by side.
    if architecture == "llama" and tensor.name.endswith((".attn_q.weight", ".attn_k.weight")):
        heads = shape.num_heads if ".attn_q." in tensor.name else shape.num_kv_heads
        if size[0] == heads * shape.head_dim:  # else refused with the other shapes
            order = undo_rotary_order(size[0], heads)
    return GgufTensor(tensor.name, tensor.tensor_type.name, size, tensor.data, order)


def _our_name(name: str) -> str:
    """The Hugging Face name of a tensor, or its own where there is none."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    match name.split("."):
        case ["blk", layer, module, end] if module in LAYER_NAMES:
            return f"model.layers.{layer}.{LAYER_NAMES[module]}.{end}"
    return name
