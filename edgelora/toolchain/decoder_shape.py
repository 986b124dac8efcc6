"""What a served decoder consists of: its numbers, its tensors and their Hugging Face names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from edgelora.toolchain.errors import ToolchainError
from services.chassis.rotary import RotaryFrequencies, rotary_frequencies

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""Served families (`model_type` of a config.json) and their Hugging Face architectures."""
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MOST = {
    "vocab_size": 2**20,
    "hidden_size": 2**16,
    "intermediate_size": 2**18,
    "num_layers": 1024,
    "num_heads": 1024,
    "num_kv_heads": 1024,
    "head_dim": 512,
    "max_context_tokens": 2**20,
}
"""The largest sizes that a packed file may have (services/inference/native)."""
_MOST_EPSILON = 1.0
_MOST_ATTENTION_FACTOR = 100.0


def is_count(value: object) -> bool:
    """Whether a value from a file is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """The numbers that define a decoder.

    All families are one network: RMSNorm, rotary grouped-query attention, SwiGLU. Qwen2 adds a bias
    to query, key and value; Qwen3 normalises every query and key head.
    """

    family: str
    """A key of `ARCHITECTURES`."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context_tokens: int
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    """As in config.json; None for plain rotary positions."""
    rms_norm_eps: float
    tied_embeddings: bool
    """Whether the output head is the embedding table itself."""
    sliding_window: int | None = None
    """The attention window where it is shorter than the model's own context: `max_context_tokens`
    is then no longer than the window, within which nothing slides."""

    def __post_init__(self) -> None:
        """Raises ToolchainError for numbers that no decoder has."""
        # First of all, for what follows takes time and memory in proportion.
        for name, most in _MOST.items():
            size = getattr(self, name)
            if not is_count(size) or not 1 <= size <= most:
                raise ToolchainError(
                    f"the model's {name} is out of range: whole numbers from 1 to {most} are served"
                )
        if self.num_heads % self.num_kv_heads or self.head_dim % 2:
            raise ToolchainError("the model's sizes do not fit together: copy it again")
        if not (0 < self.rope_theta < math.inf and 0 < self.rms_norm_eps <= _MOST_EPSILON):
            raise ToolchainError("the model's rope theta or norm epsilon is not a positive number")
        try:
            rotary = self.rotary()
        except ValueError as error:
            raise ToolchainError(str(error)) from error
        if rotary.attention_factor > _MOST_ATTENTION_FACTOR:
            raise ToolchainError("the model's rope_scaling has an attention_factor out of range")

    def rotary(self) -> RotaryFrequencies:
        """How fast each pair of values in a head turns."""
        config = {
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling,
            "max_position_embeddings": self.max_context_tokens,
        }
        return rotary_frequencies(config, self.head_dim)

    @property
    def has_qkv_bias(self) -> bool:
        """Whether query, key and value have a bias."""
        return self.family == "qwen2"

    @property
    def has_qk_norm(self) -> bool:
        """Whether query and key heads are normalised before they are rotated."""
        return self.family == "qwen3"

    def targets(self) -> dict[str, tuple[int, int]]:
        """Linear modules of every layer: name -> (out_features, in_features)."""
        queries = self.num_heads * self.head_dim
        keys = self.num_kv_heads * self.head_dim
        return {
            "q_proj": (queries, self.hidden_size),
            "k_proj": (keys, self.hidden_size),
            "v_proj": (keys, self.hidden_size),
            "o_proj": (self.hidden_size, queries),
            "gate_proj": (self.intermediate_size, self.hidden_size),
            "up_proj": (self.intermediate_size, self.hidden_size),
            "down_proj": (self.hidden_size, self.intermediate_size),
        }

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the model in file order: Hugging Face name -> shape."""
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab_size, self.hidden_size)
        }
        for layer in range(self.num_layers):
            prefix = f"model.layers.{layer}."
            shapes[f"{prefix}input_layernorm.weight"] = (self.hidden_size,)
            shapes[f"{prefix}post_attention_layernorm.weight"] = (self.hidden_size,)
            for module, shape in self.targets().items():
                block = "self_attn" if module in ATTENTION else "mlp"
                shapes[f"{prefix}{block}.{module}.weight"] = shape
                if self.has_qkv_bias and module in ("q_proj", "k_proj", "v_proj"):
                    shapes[f"{prefix}{block}.{module}.bias"] = shape[:1]
            if self.has_qk_norm:
                shapes[f"{prefix}self_attn.q_norm.weight"] = (self.head_dim,)
                shapes[f"{prefix}self_attn.k_norm.weight"] = (self.head_dim,)
        shapes["model.norm.weight"] = (self.hidden_size,)
        if not self.tied_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        return shapes

    def config(self, *, bos: int | None, eos: list[int], pad: int | None) -> dict[str, object]:
        """The `config.json` of the prepared directory, as transformers reads it."""
        # Left out, it would be 4096; a longer context was not offered in the first place.
        window = {"sliding_window": None} if self.family == "mistral" else {}
        return {
            "architectures": [ARCHITECTURES[self.family]],
            "model_type": self.family,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_context_tokens,
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling,
            "rms_norm_eps": self.rms_norm_eps,
            "hidden_act": "silu",
            "attention_bias": self.has_qkv_bias,
            "mlp_bias": False,
            **window,
            "tie_word_embeddings": self.tied_embeddings,
            "bos_token_id": bos,
            "eos_token_id": eos,
            "pad_token_id": pad,
            "torch_dtype": "float32",
        }
