"""Why a tensor of an adapter is none of those that are served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.architecture import Architecture
from edgelora.adapter_format.naming import shown

_FULL_COPIES = ("embed_tokens.weight", "lm_head.weight")
"""PEFT saves them too once the vocabulary has grown."""
_CONV1D = frozenset({"c_attn", "q_attn", "c_proj", "c_fc"})
"""GPT-2's modules of that type."""


def why_unserved(name: str, tensor: NDArray[np.floating[Any]], architecture: Architecture) -> str:
    """The reason, with the remedy where there is one."""
    if "lora_embedding_" in name:
        return f"{shown(name)} adapts an embedding, which is not served: target linear modules"
    if ".lora_" in name and tensor.ndim > 2:
        return (
            f"{shown(name)} adapts a convolution (its factors have {tensor.ndim} dimensions), "
            "which is not served: target linear modules"
        )
    if not _CONV1D.isdisjoint(name.split(".")):
        return f"{shown(name)} adapts a module of GPT-2's type Conv1D, which is not served"
    if ".pooler.dense.lora_" in name:
        return (
            f"{shown(name)} adapts the pooler, which is not served: train with "
            'exclude_modules ["pooler.dense"]'
        )
    if ".original_module." in name:
        return f"{shown(name)} is the base's own copy: save with PEFT's save_pretrained"
    kind = architecture.name
    why = f"{shown(name)} is no LoRA factor of {_an(kind)} {kind} layer's linear module"
    if name.endswith(_FULL_COPIES):
        why += ", but a copy of the base's: save with save_embedding_layers=False"
    return why


def why_not_linear(targets: Iterable[str]) -> str:
    """What to add to the refusal of modules that look like GPT-2's; empty for others."""
    if any(target.rsplit(".", 1)[-1] in _CONV1D for target in targets):
        return " (modules of GPT-2's type Conv1D are not served)"
    return ""


def _an(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
