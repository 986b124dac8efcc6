"""Random LoRA adapters that really change the output, written as PEFT writes them.

What an adapter was trained on does not change how long it takes to serve, so benchmarks draw the
factors: A as PEFT initialises it, B small but not zero.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from services.chassis.base_model import BaseModel

ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
QUERY_VALUE = ("q_proj", "v_proj")
_MLP = frozenset({"gate_proj", "up_proj", "down_proj"})
WEAK = 0.02
STRONG = 0.1
"""Standard deviation of B: of a trained adapter's order, and enough to change any greedy output."""


def write_random_adapter(
    directory: Path,
    model: BaseModel,
    *,
    rank: int,
    modules: Sequence[str],
    seed: int,
    b_std: float = WEAK,
) -> Path:
    """Writes one adapter (fp16) with alpha = rank and returns its directory."""
    draw = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray] = {}
    for layer in range(model.num_layers):
        for module in modules:
            rows, columns = model.targets[module]
            parent = "mlp" if module in _MLP else "self_attn"
            name = f"base_model.model.model.layers.{layer}.{parent}.{module}"
            bound = 1 / np.sqrt(columns)
            factor_a = draw.uniform(-bound, bound, (rank, columns))
            factor_b = draw.normal(0.0, b_std, (rows, rank))
            tensors[f"{name}.lora_A.weight"] = factor_a.astype(np.float16)
            tensors[f"{name}.lora_B.weight"] = factor_b.astype(np.float16)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "target_modules": list(modules),
        "bias": "none",
    }
    directory.mkdir(parents=True)
    save_file(tensors, directory / "adapter_model.safetensors")
    (directory / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
