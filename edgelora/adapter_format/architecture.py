"""Where the two kinds of base model keep the linear modules that LoRA may adapt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A kind of base model, as its adapters name it."""

    name: str
    """`decoder` or `encoder`."""
    factor: re.Pattern[str] = field(repr=False)
    """Matches the name of a LoRA factor. Groups: path, layer, path inside the layer, A or B."""
    layer_path: str
    """Path of a layer, with `{}` for its index; `prefix` may be absent."""
    prefix: str
    """Absent when the adapter was trained on the bare model, without an output head."""
    modules: Mapping[str, str]
    """Module name, as a key of `targets` -> path inside the layer."""
    task_types: tuple[str, ...]
    """Of PEFT, beside none at all; the first is the usual one."""
    layers_pattern: str
    """What PEFT calls the list of layers."""
    saved_modules: frozenset[str]
    """What modules_to_save may name."""
    example: str
    """A module's name, for messages."""

    def path(self, layer: int, module: str, *, is_bare: bool = False) -> str:
        """Path of a module of a layer."""
        path = f"{self.layer_path.format(layer)}.{self.modules[module]}"
        return path if is_bare else self.prefix + path


DECODER = Architecture(
    name="decoder",
    factor=re.compile(
        r"base_model\.model\.((?:model\.)?layers\.(0|[1-9][0-9]{0,3})\.([a-z_]+\.[a-z0-9_]+))"
        r"\.lora_([AB])\.(?:default\.)?weight"
    ),
    layer_path="layers.{}",
    prefix="model.",
    modules={
        "q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj",
        "o_proj": "self_attn.o_proj", "gate_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj",
        "down_proj": "mlp.down_proj",
    },
    task_types=("CAUSAL_LM",),
    layers_pattern="layers",
    saved_modules=frozenset(),
    example="q_proj",
)  # fmt: skip
"""Llama-type decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen3."""

ENCODER = Architecture(
    name="encoder",
    factor=re.compile(
        r"base_model\.model\.((?:bert\.)?encoder\.layer\.(0|[1-9][0-9]{0,3})\.([a-z_.]+))"
        r"\.lora_([AB])\.(?:default\.)?weight"
    ),
    layer_path="encoder.layer.{}",
    prefix="bert.",
    modules={
        "query": "attention.self.query", "key": "attention.self.key",
        "value": "attention.self.value", "attention.output.dense": "attention.output.dense",
        "intermediate.dense": "intermediate.dense", "output.dense": "output.dense",
    },
    task_types=("SEQ_CLS", "FEATURE_EXTRACTION"),
    layers_pattern="layer",
    saved_modules=frozenset({"classifier", "score"}),
    example="query",
)  # fmt: skip
"""BERT. PEFT's own rule makes the target `output.dense` mean `attention.output.dense` too."""
