"""LoRA adapters as files, good and bad, written without any library."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TINY_TARGETS: dict[str, tuple[int, int]] = {
    "q_proj": (32, 32),
    "k_proj": (16, 32),
    "v_proj": (16, 32),
    "o_proj": (32, 32),
    "gate_proj": (64, 32),
    "up_proj": (64, 32),
    "down_proj": (32, 64),
}
"""Linear modules of a very small Llama-type model: name -> (out_features, in_features)."""
TINY_LAYERS = 2

_PARENTS = {"gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp"}
_DTYPES = {np.dtype("<f4"): "F32", np.dtype("<f2"): "F16", np.dtype("<f8"): "F64"}

Tensors = dict[str, NDArray[Any]]


def module_path(layer: int, module: str) -> str:
    """The path of a module inside the base model."""
    return f"model.layers.{layer}.{_PARENTS.get(module, 'self_attn')}.{module}"


def tensor_name(layer: int, module: str, factor: str) -> str:
    """The name PEFT gives a factor in the file; `factor` is A or B."""
    return f"base_model.model.{module_path(layer, module)}.lora_{factor}.weight"


def config_document(**changes: Any) -> dict[str, Any]:
    """A PEFT configuration; a change of value `...` removes the key."""
    document: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
        "base_model_name_or_path": "some/base",
    }
    document.update(changes)
    return {key: value for key, value in document.items() if value is not ...}


def config_bytes(**changes: Any) -> bytes:
    """The bytes of `config_document`."""
    return json.dumps(config_document(**changes)).encode()


def tensors(
    modules: tuple[str, ...] = ("q_proj", "v_proj"),
    *,
    rank: int = 4,
    seed: int = 0,
    targets: dict[str, tuple[int, int]] = TINY_TARGETS,
    num_layers: int = TINY_LAYERS,
    scale: float = 0.1,
) -> Tensors:
    """Random float32 factors for modules of every layer."""
    rng = np.random.default_rng(seed)
    made: Tensors = {}
    for layer in range(num_layers):
        for module in modules:
            out_features, in_features = targets[module]
            for factor, shape in (("A", (rank, in_features)), ("B", (out_features, rank))):
                values = rng.standard_normal(shape).astype("<f4") * np.float32(scale)
                made[tensor_name(layer, module, factor)] = values
    return made


def safetensors_bytes(named: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file of the given arrays, in their order."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    position = 0
    for name, values in named.items():
        end = position + values.nbytes
        header[name] = {
            "dtype": _DTYPES[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [position, end],
        }
        position = end
    return with_header(header, b"".join(values.tobytes() for values in named.values()))


def with_header(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    """A file with any header, true to its data or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def bfloat16_bytes(named: Tensors) -> bytes:
    """A safetensors file with the values truncated to bfloat16."""
    header: dict[str, Any] = {}
    data = b""
    for name, values in named.items():
        half = (values.astype("<f4").view("<u4") >> 16).astype("<u2")
        header[name] = {
            "dtype": "BF16",
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + 2 * math.prod(values.shape)],
        }
        data += half.tobytes()
    return with_header(header, data)


@dataclass(frozen=True)
class AdapterFiles:
    """The files of one adapter."""

    config: bytes
    weights: bytes
    card: bytes = b""
    """Empty for none."""
    head: bytes = b""
    """Empty for none."""


def good_adapter(seed: int = 0, **changes: Any) -> AdapterFiles:
    """A small valid adapter for `TINY_TARGETS`; another seed is another adapter."""
    return AdapterFiles(config_bytes(**changes), safetensors_bytes(tensors(seed=seed)))


def ranked_adapter(rank: int, seed: int = 0, card: bytes = b"") -> AdapterFiles:
    """A small valid adapter of a rank."""
    factors = tensors(rank=rank, seed=seed)
    return AdapterFiles(config_bytes(r=rank), safetensors_bytes(factors), card)


def card_bytes(*examples: str, description: str = "") -> bytes:
    """A card.json."""
    document = {"description": description, "examples": examples}
    return json.dumps(document, ensure_ascii=False).encode()
