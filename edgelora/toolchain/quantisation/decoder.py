"""One decoder layer at a time in torch, as plain functions of its weights.

The network is that of `DecoderShape`: RMSNorm, rotary grouped-query attention, SwiGLU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.model_source import ModelSource, check_finite

Observer = Callable[[str, Tensor], None]
"""Is told the input [tokens, features] of each site of a layer (`products.SITES`)."""


@dataclass(frozen=True, slots=True)
class Rotary:
    """Cosines and sines, [tokens, head_dim]."""

    cosines: Tensor
    sines: Tensor


def rotary_table(shape: DecoderShape, num_tokens: int) -> Rotary:
    """The table of positions 0 to `num_tokens` - 1."""
    frequencies = shape.rotary()
    angles = torch.outer(
        torch.arange(num_tokens, dtype=torch.float64), torch.from_numpy(frequencies.inverse)
    )
    angles = torch.cat([angles, angles], dim=1)
    factor = frequencies.attention_factor
    return Rotary((angles.cos() * factor).float(), (angles.sin() * factor).float())


def read_layer(source: ModelSource, layer: int) -> dict[str, Tensor]:
    """The tensors of one layer in fp32, by the end of their names (`self_attn.q_proj.weight`)."""
    prefix = f"model.layers.{layer}."
    return {
        name.removeprefix(prefix): read_tensor(source, name)
        for name in source.tensors
        if name.startswith(prefix)
    }


def read_tensor(source: ModelSource, name: str) -> Tensor:
    """A tensor in fp32. Raises ToolchainError when a value is not finite."""
    values = source.tensors[name].float32()
    check_finite(name, values)
    return as_tensor(values)


def as_tensor(values: NDArray[np.float32]) -> Tensor:
    """Values of a source; a copy where they are the mapped file itself, which is read-only."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def run_layer(
    shape: DecoderShape,
    weights: Mapping[str, Tensor],
    hidden: Tensor,
    rotary: Rotary,
    observe: Observer | None = None,
) -> Tensor:
    """Returns the residual stream behind a layer. `hidden`: [windows, tokens, hidden_size]."""
    windows, tokens, _ = hidden.shape
    seen = observe or _ignore

    def project(x: Tensor, module: str) -> Tensor:
        return linear(x, weights[f"{module}.weight"], weights.get(f"{module}.bias"))

    def heads(x: Tensor, count: int, norm: str) -> Tensor:
        x = x.view(windows, tokens, count, shape.head_dim)
        if norm in weights:
            x = rms_norm(x, (shape.head_dim,), weights[norm], shape.rms_norm_eps)
        return x.transpose(1, 2)

    x = _norm(shape, hidden, weights["input_layernorm.weight"])
    seen("attention", x)
    query = heads(project(x, "self_attn.q_proj"), shape.num_heads, "self_attn.q_norm.weight")
    key = heads(project(x, "self_attn.k_proj"), shape.num_kv_heads, "self_attn.k_norm.weight")
    value = heads(project(x, "self_attn.v_proj"), shape.num_kv_heads, "")
    x = scaled_dot_product_attention(
        _rotate(query, rotary), _rotate(key, rotary), value, is_causal=True, enable_gqa=True
    )
    x = x.transpose(1, 2).reshape(windows, tokens, -1)
    seen("output", x)
    hidden = hidden + project(x, "self_attn.o_proj")
    x = _norm(shape, hidden, weights["post_attention_layernorm.weight"])
    seen("feed_forward", x)
    x = silu(project(x, "mlp.gate_proj")) * project(x, "mlp.up_proj")
    seen("down", x)
    return hidden + project(x, "mlp.down_proj")


def final_norm(shape: DecoderShape, weight: Tensor, hidden: Tensor) -> Tensor:
    """What the head reads."""
    return _norm(shape, hidden, weight)


def _norm(shape: DecoderShape, hidden: Tensor, weight: Tensor) -> Tensor:
    return rms_norm(hidden, (shape.hidden_size,), weight, shape.rms_norm_eps)


def _rotate(x: Tensor, rotary: Rotary) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    cosines, sines = rotary.cosines[: x.shape[-2]], rotary.sines[: x.shape[-2]]
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


def _ignore(site: str, inputs: Tensor) -> None:
    pass
