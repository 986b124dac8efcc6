"""Tiny BERTs that transformers wrote, for what reads and computes such directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from tests.support.tiny_encoder import tiny_tokenizer

CLASSES: dict[str, Any] = {
    "BertModel": BertModel,
    "BertForSequenceClassification": BertForSequenceClassification,
    "BertForMaskedLM": BertForMaskedLM,
}


def save_tiny_bert(
    directory: Path, kind: str = "BertModel", *, pooling: str | None = None, **changes: Any
) -> Any:
    """Writes a random model of a class of CLASSES as a Hugging Face directory; returns it."""
    torch.manual_seed(3)
    tokenizer = tiny_tokenizer()
    options = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 160,
        "max_position_embeddings": 48,
        "num_labels": 3,
        "initializer_range": 0.15,
        **changes,
    }
    model = CLASSES[kind](BertConfig(**options)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    names = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    config = {f"{name}_token": token for name, token in names.items()}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    if pooling is not None:
        folder = directory / "1_Pooling"
        folder.mkdir()
        modes = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}
        (folder / "config.json").write_text(json.dumps({**modes, pooling: True}))
    return model
