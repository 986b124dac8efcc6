"""What a Llama-type decoder consists of: its numbers, its tensors and their Hugging Face names."""

from __future__ import annotations

from dataclasses import dataclass

FAMILY = "llama"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """The numbers that define a Llama-type decoder."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context_tokens: int
    rope_theta: float
    rms_norm_eps: float
    tied_embeddings: bool
    """Whether the output head is the embedding table itself."""

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
                block = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
                shapes[f"{prefix}{block}.{module}.weight"] = shape
        shapes["model.norm.weight"] = (self.hidden_size,)
        if not self.tied_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        return shapes

    def config(
        self, *, bos: int | None, eos: int | list[int], pad: int | None
    ) -> dict[str, object]:
        """The `config.json` of the prepared directory, as transformers reads it."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": FAMILY,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_context_tokens,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.rms_norm_eps,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": self.tied_embeddings,
            "bos_token_id": bos,
            "eos_token_id": eos,
            "pad_token_id": pad,
            "torch_dtype": "float32",
        }
