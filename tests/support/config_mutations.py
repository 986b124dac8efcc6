"""Every field of an adapter's config with every kind of wrong value, and nested ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from peft import LoraConfig

FIELDS = [
    *sorted(field.name for field in dataclasses.fields(LoraConfig)),
    "auto_map", "trust_remote_code", "brand_new_option", "_commit_hash", "enable_lora",
    "merge_weights", "R", "r ", "lora_alpha\u200b", "\u0433", "__class__", "quantization_config",
]  # fmt: skip
"""All of LoraConfig's, and names it does not know."""

NAN, INFINITE = float("nan"), float("inf")
SHORT: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 2**63, 10**400, 0.5, NAN, INFINITE, "", "x", "q_proj",
    "\u202eevil", "all-linear", ".*", [], ["q_proj"], [0], {}, {"q_proj": 4}, {"q_proj": NAN},
    {"a": None},
)  # fmt: skip
"""Values of the short form."""
LONG: tuple[Any, ...] = (
    *SHORT, 2, 8, 9, 64, 65, -(2**63), 1e308, 1e-300, -0.0, "null", "8", "none", "all", "lora_only",
    "default", "layers", "gaussian", "pissa", "eva", "loftq", "orthogonal", "True", "\u00e9\u0301",
    "a" * 5000, "../../etc/passwd", "\ud83d\ude00", "q_proj\n", "(a+)+$", "model.layers.0.mlp",
    [None], [True], [-1], [1], [0, 1], [99], [[]], ["v_proj", "q_proj"], ["q_proj", "q_proj"],
    ["q.proj"], ["proj"], ["lm_head"], [""], ["q_proj", None], ["self_attn"], ["q_proj"] * 5000,
    {"": 4}, {"q_proj": None}, {"q_proj": "4"}, {"q_proj": 0}, {"q_proj": -4}, {"q_proj": 2.5},
    {"q_proj": 10**400}, {"q_proj": 8}, {"q.proj": 64}, {"^q_proj": 3}, {".*": 4}, {"k_proj": 4},
    {"layers.0.self_attn.q_proj": 5}, {"q_proj": {"q_proj": 4}}, {"q_proj": [4]}, {"x": {}},
)  # fmt: skip
"""Values of the long form."""
DEEP = "deep"
"""Stands for lists in lists, which json.dumps would not write."""


class Mutation(NamedTuple):
    """One field and what it becomes."""

    field: str
    value: Any

    def applied_to(self, config: dict[str, Any]) -> bytes:
        """The bytes of the file; NaN and infinities as Python's json writes them."""
        value = DEEP if self.value is DEEP else self.value
        text = json.dumps({**config, self.field: value})
        if self.value is DEEP:
            text = text.replace(json.dumps(DEEP), "[" * 50_000 + "]" * 50_000)
        return text.encode()


def mutations(values: tuple[Any, ...]) -> Iterator[Mutation]:
    """Every field with every value."""
    for field in FIELDS:
        for value in (*values, DEEP):
            yield Mutation(field, value)
