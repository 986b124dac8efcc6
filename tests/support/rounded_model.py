"""A transformers model with the native core's own roundings, to hold the core to."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tests.support.packed_file import PackedFile


def load_packed(model: PreTrainedModel, path: Path) -> None:
    """Gives a model the weights that a packed file stands for."""
    weights = PackedFile.read(path).weights(model.config.vocab_size)
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})


def round_as_the_core(model: PreTrainedModel) -> None:
    """Rounds inputs of products to 8 bit, keys and values to half precision."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(_round_inputs)
    model.set_attn_implementation("halves")


def _round_inputs(_module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> torch.Tensor:
    """255 levels in each group of 32."""
    (x,) = inputs
    groups = x.reshape(*x.shape[:-1], -1, 32)
    step = groups.abs().amax(dim=-1, keepdim=True) / 127
    return ((groups / step).round() * step).reshape(x.shape)


def _attend_in_halves(module, query, key, value, *arguments, **named):
    key, value = (x.half().float() for x in (key, value))
    return sdpa_attention_forward(module, query, key, value, *arguments, **named)


AttentionInterface.register("halves", _attend_in_halves)
