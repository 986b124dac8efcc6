"""Writes a trained classifier as a plain PEFT directory, and its head.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

from edgelora.adapter_format.config import NO_TARGETS
from edgelora.adapter_format.head import FILE as HEAD_FILE
from edgelora.adapter_format.head import HeadSettings, ScopeRule, parse_head
from edgelora.error_tree import AdapterRejectedError
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.lora_model import CONFIG_FILE, WEIGHTS_FILE

_WHOLE_MODEL = "model.safetensors"


def save_classifier(model: EncoderClassifier, directory: Path) -> Path:
    """Writes what was trained and returns the file with the weights.

    LoRA factors and head are a PEFT directory in fp16, and the model has the rounded weights
    afterwards; of a linear probe the head alone is written. A whole model is a directory of
    transformers' in fp32.
    Raises ToolchainError when a value is not finite in fp16.
    """
    if model.method == "full":
        model.wrapped.save_pretrained(directory)
        return directory / _WHOLE_MODEL
    state = {
        name: tensor.detach().to(torch.float16).contiguous()
        for name, tensor in get_peft_model_state_dict(
            model.wrapped, save_embedding_layers=False
        ).items()
        if model.method == "lora" or ".lora_" not in name
    }
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ToolchainError(
                f"training diverged: {name} is not finite; lower the learning rate"
            )
    save_file(state, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    config: dict[str, Any] = model.wrapped.peft_config["default"].to_dict()
    config["inference_mode"] = True
    targets = config["target_modules"]
    config["target_modules"] = sorted(targets) if model.method == "lora" else NO_TARGETS
    text = json.dumps(config, indent=2, sort_keys=True, default=str) + "\n"
    (directory / CONFIG_FILE).write_text(text, encoding="utf-8")
    # What ships is what is measured.
    set_peft_model_state_dict(model.wrapped, load_file(directory / WEIGHTS_FILE))
    return directory / WEIGHTS_FILE


def mean_weights(directories: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The mean of the weights of whole models that `save_classifier` wrote."""
    states = [load_file(directory / _WHOLE_MODEL) for directory in directories]
    return {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}


def check_labels(labels: tuple[str, ...]) -> None:
    """Raises ToolchainError for outputs that no head.json may name.

    Else a training would find out at its end.
    """
    longest = ScopeRule(label=max(labels, key=len), score="max_probability", threshold=0.123456789)
    try:
        parse_head(_head(labels, longest))
    except AdapterRejectedError as error:
        raise ToolchainError(f"the labels make no classifier: {error.message}") from error


def save_head(directory: Path, labels: tuple[str, ...], rule: ScopeRule | None) -> None:
    """Writes head.json: what the classifier's outputs mean."""
    data = _head(labels, rule)
    parse_head(data)
    (directory / HEAD_FILE).write_bytes(data)


def _head(labels: tuple[str, ...], rule: ScopeRule | None) -> bytes:
    settings = HeadSettings(labels=labels, pooling="mean", normalise=True, out_of_scope=rule)
    document = json.loads(settings.canonical_bytes())
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
