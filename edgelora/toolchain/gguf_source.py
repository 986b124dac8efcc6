"""Reads a llama-type model from a GGUF file (github.com/ggml-org/ggml, docs/gguf.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_tokenizer import read_tokenizer, token_id
from edgelora.toolchain.llama_layout import FAMILY, LlamaShape

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OTHER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


class GgufModel:
    """A GGUF file as a ModelSource."""

    def __init__(self, path: Path) -> None:
        """Reads the metadata. Raises ToolchainError for a damaged file or another architecture."""
        self._reader = _open(path)
        self._metadata: dict[str, Any] = {
            name: field.contents() for name, field in self._reader.fields.items()
        }
        architecture = self._metadata.get("general.architecture")
        if architecture != FAMILY:
            raise ToolchainError(
                f"{path.name} holds architecture {architecture!r}; supported: {FAMILY!r}"
            )
        self._stored = {tensor.name: tensor for tensor in self._reader.tensors}
        self.shape = self._read_shape()
        self.tokenizer = read_tokenizer(self._metadata)
        eos = token_id(self._metadata, "eos")
        if eos is None:
            raise ToolchainError(f"{path.name} names no end-of-sequence token")
        self.config = self.shape.config(
            bos=token_id(self._metadata, "bos"), eos=eos, pad=token_id(self._metadata, "padding")
        )

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yields every tensor dequantised to fp32; see ModelSource."""
        wanted = {name: _gguf_name(name) for name in self.shape.tensors()}
        if unknown := sorted(self._stored.keys() - set(wanted.values())):
            raise ToolchainError(
                f"the file holds {len(unknown)} tensors this release does not know, "
                f"for example {unknown[0]!r}: the model is no plain {FAMILY} decoder"
            )
        for name, stored_name in wanted.items():
            if stored_name not in self._stored:
                raise ToolchainError(f"the file lacks tensor {stored_name!r}: download it again")
            tensor = self._stored[stored_name]
            try:
                values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            except NotImplementedError as error:
                raise ToolchainError(
                    f"tensor {stored_name!r} has quantisation {tensor.tensor_type.name}, which "
                    "cannot be read: use another GGUF of this model, for example Q8_0"
                ) from error
            values = np.asarray(values, dtype=np.float32)
            if name.endswith("q_proj.weight"):
                values = _undo_rotary_order(values, self.shape.num_heads)
            elif name.endswith("k_proj.weight"):
                values = _undo_rotary_order(values, self.shape.num_kv_heads)
            yield name, values

    def _read_shape(self) -> LlamaShape:
        scaling = self._metadata.get(f"{FAMILY}.rope.scaling.type", "none")
        if scaling != "none" or "rope_freqs.weight" in self._stored:
            raise ToolchainError("the model scales its rotary positions: not supported yet")
        heads = self._number("attention.head_count")
        hidden = self._number("embedding_length")
        head_dim = int(self._metadata.get(f"{FAMILY}.attention.key_length", hidden // heads))
        if self._metadata.get(f"{FAMILY}.rope.dimension_count", head_dim) != head_dim:
            raise ToolchainError("the model rotates only part of a head: not supported")
        return LlamaShape(
            vocab_size=len(self._metadata["tokenizer.ggml.tokens"]),
            hidden_size=hidden,
            intermediate_size=self._number("feed_forward_length"),
            num_layers=self._number("block_count"),
            num_heads=heads,
            num_kv_heads=int(self._metadata.get(f"{FAMILY}.attention.head_count_kv", heads)),
            head_dim=head_dim,
            max_context_tokens=self._number("context_length"),
            rope_theta=float(self._metadata.get(f"{FAMILY}.rope.freq_base", 10000.0)),
            rms_norm_eps=_shortest(self._metadata[f"{FAMILY}.attention.layer_norm_rms_epsilon"]),
            tied_embeddings="output.weight" not in self._stored,
        )

    def _number(self, key: str) -> int:
        value = self._metadata.get(f"{FAMILY}.{key}")
        if not isinstance(value, int) or value <= 0:
            raise ToolchainError(f"the file's {FAMILY}.{key} is missing or not a positive number")
        return value


def _open(path: Path) -> Any:
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ToolchainError(f"{path.name} is no GGUF file")
    try:
        return gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, struct.error) as error:
        raise ToolchainError(f"{path.name} is cut or damaged: download it again") from error


def _gguf_name(name: str) -> str:
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    layer, module = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return f"blk.{layer}.{_LAYER_NAMES[module]}.weight"


def _undo_rotary_order(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Turns rows from GGUF's order (rotary pairs side by side) into Hugging Face's (halves).

    `weight`: fp32 [heads * head_dim, in_features].
    """
    pairs = weight.shape[0] // heads // 2
    return weight.reshape(heads, pairs, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def _shortest(value: float) -> float:
    """The shortest decimal with the same float32 value: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
