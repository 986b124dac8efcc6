"""The frozen weights of a decoder: RMSNorm, rotary grouped-query attention, SwiGLU.

Llama and Mistral are exactly that; Qwen2 adds a bias to query, key and value; Qwen3 normalises
query and key heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from services.chassis.base_model import FLOAT32_FILE, read_object
from services.chassis.rotary import RotaryFrequencies, rotary_frequencies
from services.inference.backends.torch_linear import FrozenLinear

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """The numbers of `config.json` (Hugging Face names) that the forward pass needs."""

    family: str
    """One of `FAMILIES`."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    is_head_tied: bool
    rotary: RotaryFrequencies

    @classmethod
    def load(cls, directory: Path) -> DecoderConfig:
        """Reads `config.json`. Raises ValueError where a field is missing or not supported."""
        document = read_object(directory / "config.json")
        if document.get("hidden_act", "silu") != "silu":
            raise ValueError("config.json: hidden_act must be 'silu'")
        if (family := document.get("model_type")) not in FAMILIES:
            raise ValueError(
                f"config.json: model_type {family!r} is not supported; "
                f"supported: {', '.join(FAMILIES)}"
            )
        try:
            heads = int(document["num_attention_heads"])
            hidden = int(document["hidden_size"])
            head_dim = int(document.get("head_dim") or hidden // heads)
            return cls(
                family=family,
                vocab_size=int(document["vocab_size"]),
                hidden_size=hidden,
                intermediate_size=int(document["intermediate_size"]),
                num_layers=int(document["num_hidden_layers"]),
                num_heads=heads,
                num_kv_heads=int(document.get("num_key_value_heads") or heads),
                head_dim=head_dim,
                rms_norm_eps=float(document["rms_norm_eps"]),
                is_head_tied=bool(document.get("tie_word_embeddings", False)),
                rotary=rotary_frequencies(document, head_dim),
            )
        except KeyError as error:
            raise ValueError(f"config.json lacks {error.args[0]!r}") from error
        except (TypeError, ArithmeticError) as error:
            raise ValueError("config.json has a size that is not a number") from error


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """The frozen weights of one decoder layer; projections of the same input are one product."""

    attention_norm: Tensor
    qkv: FrozenLinear
    qk_norm: Tensor | None
    """[query and key heads, head_dim], where these heads are normalised."""
    o: FrozenLinear
    mlp_norm: Tensor
    gate_up: FrozenLinear
    down: FrozenLinear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All frozen weights."""

    embed_tokens: Tensor
    """[vocab, hidden]; in fp32 on the CPU it stays mapped from the file."""
    layers: tuple[DecoderLayer, ...]
    norm: Tensor
    head: FrozenLinear

    @property
    def num_bytes(self) -> int:
        """Memory of the weights, in bytes, the mapped embedding included."""
        linears = [self.head]
        plain = [self.embed_tokens, self.norm]
        for layer in self.layers:
            linears += (layer.qkv, layer.o, layer.gate_up, layer.down)
            plain += (layer.attention_norm, layer.mlp_norm)
            if layer.qk_norm is not None:
                plain.append(layer.qk_norm)
        dense = sum(tensor.numel() * tensor.element_size() for tensor in plain)
        return dense + sum(linear.num_bytes for linear in linears)


def load_weights(
    directory: Path, config: DecoderConfig, dtype: torch.dtype, device: torch.device
) -> DecoderWeights:
    """Maps `model.safetensors` and arranges the weights.

    Raises FileNotFoundError when there is no such file, ValueError when a tensor is missing, has
    another shape, or is left over.
    """
    with safe_open(directory / FLOAT32_FILE, framework="pt") as file:
        left = set(file.keys())

        def take(name: str, *shape: int) -> Tensor:
            if name not in left:
                raise ValueError(f"{FLOAT32_FILE} lacks tensor {name!r}")
            left.remove(name)
            tensor: Tensor = file.get_tensor(name)
            if tensor.shape != shape:
                raise ValueError(
                    f"{FLOAT32_FILE}: {name!r} has shape {list(tensor.shape)}, not {list(shape)}"
                )
            return tensor.to(device, dtype)

        hidden, inner = config.hidden_size, config.intermediate_size
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        embed_tokens = take("model.embed_tokens.weight", config.vocab_size, hidden)
        layers = []
        for index in range(config.num_layers):
            layer = f"model.layers.{index}."
            attention, mlp = f"{layer}self_attn.", f"{layer}mlp."
            qkv = [
                take(f"{attention}q_proj.weight", queries, hidden),
                take(f"{attention}k_proj.weight", keys, hidden),
                take(f"{attention}v_proj.weight", keys, hidden),
            ]
            bias = None
            if config.family == "qwen2":
                bias = torch.cat(
                    [
                        take(f"{attention}q_proj.bias", queries),
                        take(f"{attention}k_proj.bias", keys),
                        take(f"{attention}v_proj.bias", keys),
                    ]
                )
            qk_norm = None
            if config.family == "qwen3":
                query_norm = take(f"{attention}q_norm.weight", config.head_dim)
                key_norm = take(f"{attention}k_norm.weight", config.head_dim)
                heads = [query_norm] * config.num_heads + [key_norm] * config.num_kv_heads
                qk_norm = torch.stack(heads)
            gate_up = [
                take(f"{mlp}gate_proj.weight", inner, hidden),
                take(f"{mlp}up_proj.weight", inner, hidden),
            ]
            layers.append(
                DecoderLayer(
                    attention_norm=take(f"{layer}input_layernorm.weight", hidden),
                    qkv=FrozenLinear(torch.cat(qkv), bias),
                    qk_norm=qk_norm,
                    o=FrozenLinear(take(f"{attention}o_proj.weight", hidden, queries)),
                    mlp_norm=take(f"{layer}post_attention_layernorm.weight", hidden),
                    gate_up=FrozenLinear(torch.cat(gate_up)),
                    down=FrozenLinear(take(f"{mlp}down_proj.weight", hidden, inner)),
                )
            )
        norm = take("model.norm.weight", hidden)
        tied = config.is_head_tied
        head = embed_tokens if tied else take("lm_head.weight", config.vocab_size, hidden)
        if left:
            raise ValueError(
                f"{FLOAT32_FILE}: tensor {min(left)!r} is none of a {config.family} decoder"
            )
        return DecoderWeights(embed_tokens, tuple(layers), norm, FrozenLinear(head))
