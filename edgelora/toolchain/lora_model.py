"""The base model with a trainable LoRA adapter, and the adapter's files."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch

# Nothing here may reach for a network: every file is local.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.training_options import ALL_LINEAR, TrainingOptions

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"


def load_tokenizer(model_directory: Path) -> Any:
    """The tokenizer of a prepared model, as transformers presents it; it can always pad."""
    tokenizer = AutoTokenizer.from_pretrained(model_directory, local_files_only=True)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # what is padded carries no loss
    return tokenizer


def load_base(model_directory: Path, dtype: torch.dtype) -> Any:
    """The base model of a prepared directory, in evaluation mode."""
    transformers_logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        model_directory, dtype=dtype, local_files_only=True
    )
    return model.eval()


def add_lora(model: Any, options: TrainingOptions, base_name: str) -> Any:
    """Wraps the base with a new, trainable adapter (weights fp32) that starts as a no-op.

    Gradient checkpointing is switched on for training when the options ask for it.
    """
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=options.r,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        use_rslora=options.use_rslora,
        target_modules=ALL_LINEAR if options.targets == (ALL_LINEAR,) else list(options.targets),
    )
    with warnings.catch_warnings():
        # PEFT 0.21 still asks transformers 5 by the older name; nothing for users to act upon.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        wrapped = get_peft_model(model, config)
        if options.gradient_checkpointing:
            # Transformers 5 has renamed it meanwhile, and will not drop this name before 6.
            warnings.filterwarnings("ignore", "`gradient_checkpointing_enable`", FutureWarning)
            wrapped.gradient_checkpointing_enable({"use_reentrant": False})
    # A path of this machine would mean nothing, and tell too much, elsewhere.
    wrapped.peft_config["default"].base_model_name_or_path = base_name
    return wrapped


def save_adapter(model: Any, directory: Path) -> None:
    """Writes a plain PEFT directory: configuration and fp16 weights.

    Raises ToolchainError when a value is not finite in fp16.
    """
    state = {
        name: tensor.detach().to(torch.float16).contiguous()
        for name, tensor in get_peft_model_state_dict(model, save_embedding_layers=False).items()
    }
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ToolchainError(
                f"training diverged: {name} is not finite; lower the learning rate"
            )
    save_file(state, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    config = model.peft_config["default"].to_dict()
    config["inference_mode"] = True
    if isinstance(config["target_modules"], set):
        config["target_modules"] = sorted(config["target_modules"])
    text = json.dumps(config, indent=2, sort_keys=True, default=str) + "\n"
    (directory / CONFIG_FILE).write_text(text, encoding="utf-8")


def adapter_tensors(model: Any) -> dict[str, torch.Tensor]:
    """Copies of the adapter's factors as they are, on the processor."""
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: tensor.detach().cpu().clone() for name, tensor in state.items()}


def set_adapter_tensors(model: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Puts such factors back."""
    if set_peft_model_state_dict(model, tensors).unexpected_keys:
        raise ToolchainError(
            "the saved adapter does not fit the model it was trained on: start over with --replace"
        )


def with_adapter(model: Any, directory: Path) -> Any:
    """Wraps a base with the adapter of a PEFT directory, as PEFT itself reads it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        return PeftModel.from_pretrained(model, directory, local_files_only=True).eval()
