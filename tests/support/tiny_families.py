"""Very small random models of every served family, as Hugging Face directories and GGUF files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.support.small_tokenizer import (
    CHAT_TEMPLATE,
    CONTROL_TOKENS,
    EOS_TOKEN_ID,
    small_tokenizer,
)

VOCAB_SIZE = 275
"""No multiple of 16: the packed file is padded."""
CONTEXT = 128
NUM_LAYERS, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM = 2, 4, 2, 32

_CLASSES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def tiny_model(
    family: str, *, rope: dict[str, Any] | None = None, tied: bool = True, **changes: Any
) -> PreTrainedModel:
    """Random weights, biases and norms included. `rope` and `changes` go to the config."""
    config_class, model_class = _CLASSES[family]
    torch.manual_seed(5)
    config = config_class(
        vocab_size=VOCAB_SIZE,
        num_attention_heads=NUM_HEADS,
        num_key_value_heads=NUM_KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, **(rope or {})},
        **{
            "hidden_size": 64,
            "num_hidden_layers": NUM_LAYERS,
            "intermediate_size": 96,
            "bos_token_id": None,
            "eos_token_id": EOS_TOKEN_ID,
            "sliding_window": None,
            **changes,
        },
    )
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.5)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.15)
    return model


def save_directory(model: PreTrainedModel, directory: Path) -> None:
    """Writes a Hugging Face directory with a small tokenizer."""
    model.save_pretrained(directory)
    small_tokenizer().save(str(directory / "tokenizer.json"))
    config = {"eos_token": CONTROL_TOKENS[EOS_TOKEN_ID], "chat_template": CHAT_TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def save_gguf(
    model: PreTrainedModel,
    path: Path,
    *,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    other_kinds: dict[str, gguf.GGMLQuantizationType] | None = None,
    metadata: dict[str, Any] | None = None,
    rope_factors: np.ndarray | None = None,
    merges: list[str] | None = None,
    chat_template: str | int = CHAT_TEMPLATE,
) -> None:
    """Writes a GGUF file as llama.cpp's converter does; Mistral is a llama there.

    Matrices become `kind`, or what `other_kinds` says for a part of their GGUF name; everything
    else stays fp32. `metadata` replaces or adds numbers of the architecture; None leaves one out.
    `merges` replaces the tokenizer's own; `chat_template` may be of a wrong kind.
    """
    config: Any = model.config
    architecture = {"mistral": "llama"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    numbers = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "rope.dimension_count": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": config.rope_parameters["rope_theta"],
        **(metadata or {}),
    }
    for key, value in numbers.items():
        name = f"{architecture}.{key}"
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif value is not None:
            writer.add_uint32(name, value)
    _add_tokenizer(writer, merges)
    if isinstance(chat_template, str):
        writer.add_chat_template(chat_template)
    else:
        writer.add_uint32("tokenizer.chat_template", chat_template)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = parameter.numpy()
        if architecture == "llama" and ("q_proj.weight" in name or "k_proj.weight" in name):
            # Rotary pairs side by side: (i, i + half) of a head become rows 2i and 2i + 1.
            heads = len(values) // HEAD_DIM
            values = (
                values.reshape(heads, 2, HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(values.shape)
            )
        if values.ndim == 1:
            writer.add_tensor(_gguf_name(name), values)
        else:
            own = [k for part, k in (other_kinds or {}).items() if part in _gguf_name(name)]
            kind_here = own[0] if own else kind
            data = gguf.quants.quantize(np.ascontiguousarray(values), kind_here)
            writer.add_tensor(_gguf_name(name), data, raw_dtype=kind_here)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama3_factors(theta: float, rope: dict[str, Any]) -> np.ndarray:
    """Divisors of the rotary frequencies, as llama.cpp's converter computes them for Llama 3.1."""
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    factors = []
    for exponent in range(0, HEAD_DIM, 2):
        length = 2 * math.pi * theta ** (exponent / HEAD_DIM)
        smooth = (low / length - 1) / (low / high - 1)
        if length < high:
            factors.append(1.0)
        elif length > low:
            factors.append(rope["factor"])
        else:
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors)


def _add_tokenizer(writer: gguf.GGUFWriter, merges: list[str] | None) -> None:
    tokenizer = small_tokenizer()
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    own = json.loads(tokenizer.to_str())["model"]["merges"]
    kinds = [3 if token in CONTROL_TOKENS else 1 for token in tokens]
    padding = VOCAB_SIZE - len(tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *(f"[PAD{index}]" for index in range(padding))])
    writer.add_token_types([*kinds, *[5] * padding])
    writer.add_token_merges([" ".join(merge) for merge in own] if merges is None else merges)
    writer.add_eos_token_id(EOS_TOKEN_ID)


def _gguf_name(name: str) -> str:
    others = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in others:
        return others[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    module, end = rest.rsplit(".", 1)
    return f"blk.{layer}.{_LAYER_NAMES[module]}.{end}"
