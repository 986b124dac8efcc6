"""How large the inputs of an encoder's layers are, measured on random texts in fp32.

A few of the values that a LayerNorm gives are many times larger than the others, in every text and
in every language: on them depends how finely the values beside them can be rounded. Dividing each
input by a factor and multiplying the column of the weights by it changes nothing but that
(SmoothQuant: Xiao et al., arXiv 2211.10438).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.bert_shape import BertShape, module_name
from edgelora.toolchain.errors import ToolchainError

Floats = NDArray[np.float32]
Tensors = Callable[[str], Floats]
"""The values of a tensor, by its Hugging Face name."""

_NUM_TEXTS = 64
_TEXT_TOKENS = 16
_SEED = 0
_SMALLEST = 1e-3


class MeasuredInputs:
    """Runs some texts through the layers, one after the other."""

    def __init__(self, shape: BertShape, tensors: Tensors) -> None:
        """The texts are random tokens."""
        self._shape = shape
        self._tensors = tensors
        rng = np.random.default_rng(_SEED)
        length = min(_TEXT_TOKENS, shape.max_context_tokens)
        tokens = rng.integers(0, shape.vocab_size, (_NUM_TEXTS, length))
        embedded = (
            tensors("embeddings.word_embeddings.weight")[tokens]
            + tensors("embeddings.position_embeddings.weight")[:length]
            + tensors("embeddings.token_type_embeddings.weight")[0]
        )
        with np.errstate(over="ignore", invalid="ignore"):  # the first layer finds out
            self._hidden = self._norm("embeddings.LayerNorm", embedded)

    def run_layer(self, layer: int) -> tuple[Floats, Floats]:
        """Runs the next layer.

        Returns the factors, [hidden_size], for the inputs of its attention and of its intermediate
        layer. Raises ToolchainError where numbers overflow.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._run_layer(layer)
        if not np.isfinite(self._hidden).all():
            raise ToolchainError(
                f"layer {layer} of the model gives numbers that are none: the source is damaged"
            )
        return found

    def _run_layer(self, layer: int) -> tuple[Floats, Floats]:
        before = factors(self._hidden)
        attended = self._linear(module_name(layer, "attention.output.dense"), self._attend(layer))
        prefix = f"encoder.layer.{layer}."
        middle = self._norm(f"{prefix}attention.output.LayerNorm", self._hidden + attended)
        inner = _gelu(self._linear(module_name(layer, "intermediate.dense"), middle))
        self._hidden = self._norm(
            f"{prefix}output.LayerNorm",
            middle + self._linear(module_name(layer, "output.dense"), inner),
        )
        return before, factors(middle)

    def _attend(self, layer: int) -> Floats:
        texts, length, hidden = self._hidden.shape
        heads = (texts, length, self._shape.num_heads, hidden // self._shape.num_heads)
        query, key, value = (
            self._linear(module_name(layer, one), self._hidden).reshape(heads).swapaxes(1, 2)
            for one in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(2, 3) / np.float32(math.sqrt(heads[3]))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended: Floats = (weights @ value).swapaxes(1, 2).reshape(texts, length, hidden)
        return attended

    def _linear(self, name: str, x: Floats) -> Floats:
        y: Floats = x @ self._tensors(f"{name}.weight").T + self._tensors(f"{name}.bias")
        return y

    def _norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        normalised = centred / np.sqrt(variance + np.float32(self._shape.layer_norm_eps))
        y: Floats = normalised * self._tensors(f"{name}.weight") + self._tensors(f"{name}.bias")
        return y


def factors(inputs: Floats) -> Floats:
    """What to multiply each input by, shape [hidden_size]: halfway to all being equally large."""
    size = np.sqrt(np.square(inputs).mean(axis=(0, 1)))
    usual = np.median(size)
    if not usual:  # a layer that is off
        return np.ones_like(size)
    size = np.maximum(size / usual, _SMALLEST)
    found: Floats = (1 / np.sqrt(size)).astype(np.float32)
    return found


def _gelu(x: Floats) -> Floats:
    """By tanh, which is near enough to the exact one for measuring."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    y: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return y
