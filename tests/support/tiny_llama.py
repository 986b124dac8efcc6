"""A very small llama with random weights, saved the way Hugging Face models are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.support.prepared_model import prepared_model


def save_tiny_llama(
    directory: Path,
    *,
    dtype: torch.dtype = torch.float32,
    tied: bool = True,
    shard_size: str = "5GB",
    **changes: Any,
) -> None:
    """Writes the model with the real model's tokenizer. `changes` go to the config."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    model = LlamaForCausalLM(config).to(dtype).eval()
    model.save_pretrained(directory, max_shard_size=shard_size)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(prepared_model() / name, directory / name)
    if changes:
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
