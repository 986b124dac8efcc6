"""BERT (Devlin et al., arXiv 1810.04805) in plain torch, as transformers' BertModel computes it.

The texts of a step lie one behind the other in one [tokens, features] matrix, without padding: a
linear layer is one product for all of them, attention looks at each text by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional

from services.chassis.base_model import FLOAT32_FILE, read_object

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """What config.json says, as far as it changes what is computed."""

    num_heads: int
    eps: float
    """Of the layer norms."""
    activation: str
    """`gelu`, or `gelu_new` for its approximation by tanh."""

    @classmethod
    def load(cls, directory: Path) -> EncoderShape:
        """Raises FileNotFoundError, and ValueError for what this encoder can not compute."""
        config = read_object(directory / "config.json")
        activation = config.get("hidden_act", "gelu")
        if activation not in _ACTIVATIONS:
            raise ValueError(f"config.json: hidden_act must be one of {', '.join(_ACTIVATIONS)}")
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError("config.json: position_embedding_type must be absolute")
        num_heads = config.get("num_attention_heads")
        if type(num_heads) is not int or num_heads < 1:
            raise ValueError("config.json says no number of heads: prepare the model again")
        return cls(
            num_heads=num_heads,
            eps=float(config.get("layer_norm_eps", 1e-12)),
            activation=activation,
        )


class Adaptation(Protocol):
    """What the adapters of a step add to its linear layers."""

    def add(self, layer: int, module: str, y: Tensor, x: Tensor) -> None:
        """Adds the updates to y, [tokens, out_features], from x, [tokens, in_features]."""
        ...


class TorchEncoder:
    """The weights, and one step over them."""

    def __init__(self, directory: Path, num_layers: int) -> None:
        """Raises FileNotFoundError or ValueError when the directory is no prepared encoder."""
        self._shape = EncoderShape.load(directory)
        self._num_layers = num_layers
        with safe_open(directory / FLOAT32_FILE, framework="pt") as file:
            self._weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        if "encoder.layer.0.attention.self.query.weight" not in self._weights:
            raise ValueError(f"{FLOAT32_FILE} holds no encoder: prepare the model again")

    @property
    def num_bytes(self) -> int:
        """Memory of the weights."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._weights.values())

    @property
    def has_pooler(self) -> bool:
        """Whether the model came with BERT's pooler."""
        return "pooler.dense.weight" in self._weights

    def run(self, token_ids: Tensor, lengths: Sequence[int], adaptation: Adaptation) -> Tensor:
        """Returns the last layer's vectors, [tokens, hidden_size].

        `token_ids`: int64 [tokens], text after text; `lengths`: tokens of each text.
        """
        positions = torch.cat([torch.arange(length) for length in lengths])
        x = self._embedding("word", token_ids) + self._embedding("position", positions)
        x = self._norm("embeddings.LayerNorm", x + self._embedding("token_type", positions * 0))
        for layer in range(self._num_layers):
            x = self._run_layer(layer, x, lengths, adaptation)
        return x

    def pool_bert(self, first: Tensor) -> Tensor:
        """BERT's pooler over the first vectors of some texts, [texts, hidden_size]."""
        return torch.tanh(self._linear("pooler.dense", first))

    def _run_layer(
        self, layer: int, x: Tensor, lengths: Sequence[int], adaptation: Adaptation
    ) -> Tensor:
        def linear(path: str, module: str, values: Tensor) -> Tensor:
            y = self._linear(f"encoder.layer.{layer}.{path}", values)
            adaptation.add(layer, module, y, values)
            return y

        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(f"attention.self.{part}", part, x) for part in ("query", "key", "value")
        )
        context = self._attend(query, key, value, lengths)
        attended = linear("attention.output.dense", "attention.output.dense", context)
        x = self._norm(f"{name}.attention.output.LayerNorm", attended + x)
        inner = linear("intermediate.dense", "intermediate.dense", x)
        inner = _ACTIVATIONS[self._shape.activation](inner)
        outer = linear("output.dense", "output.dense", inner)
        return self._norm(f"{name}.output.LayerNorm", outer + x)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
        """Every token of a text looks at all of its text; returns [tokens, hidden_size]."""
        heads = self._shape.num_heads
        parts = []
        texts = (torch.split(tensor, list(lengths)) for tensor in (query, key, value))
        for q, k, v in zip(*texts, strict=True):
            q, k, v = (each.view(len(each), heads, -1).transpose(0, 1) for each in (q, k, v))
            mixed = functional.scaled_dot_product_attention(q, k, v)
            parts.append(mixed.transpose(0, 1).reshape(mixed.shape[1], -1))
        return torch.cat(parts)

    def _embedding(self, kind: str, indices: Tensor) -> Tensor:
        return functional.embedding(indices, self._weights[f"embeddings.{kind}_embeddings.weight"])

    def _linear(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.linear(x, weight, bias)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[-1:], weight, bias, self._shape.eps)
