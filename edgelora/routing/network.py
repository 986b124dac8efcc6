"""The router's network: a text becomes a vector, and each candidate a score.

Words are means of n-gram embeddings; a convolution over three words at a time and pooling make the
text's vector. A candidate is the vectors of its example prompts; two-layer MLPs score it, and the
base model, which is always a choice. Float32 and numpy alone: serving needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from edgelora.routing.features import text_features

Array = NDArray[np.float32]

DEVICE_FEATURES = 6
"""Severity and whether it is unknown, of temperature, memory and battery."""
COSINES = 2
"""To the prototype, and to the nearest example."""
CONVOLUTION_WORDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """How hard-pressed the device is: 0 normal, 0.5 elevated, 1 critical, None unknown."""

    temperature: float | None = None
    memory: float | None = None
    battery: float | None = None

    def features(self) -> Array:
        """Float32 [DEVICE_FEATURES]."""
        pairs = (
            (severity or 0.0, float(severity is None))
            for severity in (self.temperature, self.memory, self.battery)
        )
        return np.array([value for pair in pairs for value in pair], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The parameters, float32. A linear layer is [inputs, outputs]."""

    embedding: Array
    """[buckets, embedding]"""
    convolution: Array
    """[CONVOLUTION_WORDS * embedding, channels], the words in their order"""
    convolution_bias: Array
    """[channels]"""
    text: Array
    """[embedding + 2 * channels, width], of mean embedding, mean and largest channels"""
    text_bias: Array
    """[width]"""
    candidate_hidden: Array
    """[4 * width + COSINES + DEVICE_FEATURES + 1, hidden], inputs as in `candidate_inputs`"""
    candidate_hidden_bias: Array
    candidate_output: Array
    """[hidden, 1]"""
    base_hidden: Array
    """[width + DEVICE_FEATURES, hidden of the base]"""
    base_hidden_bias: Array
    base_output: Array
    """[hidden of the base, 1]"""
    base_output_bias: Array
    """[1]"""

    @property
    def num_buckets(self) -> int:
        return len(self.embedding)

    @property
    def width(self) -> int:
        return len(self.text_bias)

    def check(self) -> None:
        """Raises ValueError, naming the tensor, when shapes do not fit or a value is not finite."""
        shapes = {field.name: getattr(self, field.name).shape for field in fields(self)}
        if (
            len(shapes["embedding"]) != 2
            or any(len(shapes[name]) != 2 for name in ("convolution", "text", "base_hidden"))
            or len(shapes["candidate_hidden"]) != 2
        ):
            raise ValueError("a matrix has not two dimensions")
        embedding, channels = shapes["embedding"][1], shapes["convolution"][1]
        width, hidden, base = (
            shapes[name][1] for name in ("text", "candidate_hidden", "base_hidden")
        )
        expected = {
            "embedding": (shapes["embedding"][0], embedding),
            "convolution": (CONVOLUTION_WORDS * embedding, channels),
            "convolution_bias": (channels,),
            "text": (embedding + 2 * channels, width),
            "text_bias": (width,),
            "candidate_hidden": (4 * width + COSINES + DEVICE_FEATURES + 1, hidden),
            "candidate_hidden_bias": (hidden,),
            "candidate_output": (hidden, 1),
            "base_hidden": (width + DEVICE_FEATURES, base),
            "base_hidden_bias": (base,),
            "base_output": (base, 1),
            "base_output_bias": (1,),
        }
        for name, shape in expected.items():
            if shapes[name] != shape:
                raise ValueError(f"{name} does not fit the other tensors")
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} holds a value that is not finite")


def text_vector(weights: Weights, text: str) -> Array:
    """The vector of a text, of length 1; float32 [width]."""
    features = text_features(text, weights.num_buckets)
    counts = np.diff(features.starts, append=len(features.buckets)).astype(np.float32)
    grams = np.take(weights.embedding, features.buckets, axis=0)
    words = np.add.reduceat(grams, features.starts) / counts[:, None]
    padded = np.pad(words, ((1, 1), (0, 0)))
    windows = np.concatenate([padded[:-2], words, padded[2:]], axis=1)
    channels = np.maximum(windows @ weights.convolution + weights.convolution_bias, 0)
    pooled = np.concatenate([words.mean(0), channels.mean(0), channels.max(0)])
    return _unit(pooled @ weights.text + weights.text_bias)


@dataclass(frozen=True, slots=True)
class Prototype:
    """What a candidate is for: the vectors of its example prompts, float32 [examples, width]."""

    examples: Array


@dataclass(frozen=True, slots=True)
class PrototypeTable:
    """The prototypes of all candidates, side by side; built once for each set of candidates."""

    means: Array
    """Mean of each candidate's examples, of length 1; [candidates, width]"""
    examples: Array
    """[all examples, width]"""
    starts: NDArray[np.int64]
    """Where each candidate's examples begin; [candidates]"""

    @classmethod
    def of(cls, prototypes: Sequence[Prototype], width: int) -> PrototypeTable:
        """Stacks the prototypes in their order."""
        if not prototypes:
            return cls(np.empty((0, width), np.float32), np.empty((0, width), np.float32), _NONE)
        means = np.stack([_unit(one.examples.mean(0)) for one in prototypes])
        counts = [len(one.examples) for one in prototypes]
        starts = np.cumsum([0, *counts[:-1]])
        return cls(means, np.concatenate([one.examples for one in prototypes]), starts)


def candidate_inputs(
    vector: Array, table: PrototypeTable, device: Array, resident: NDArray[np.bool_]
) -> Array:
    """What the MLP sees of each candidate; float32 [candidates, inputs]: text, prototype, product,
    absolute difference, cosines, device, whether a worker holds it."""
    count = len(table.means)
    texts = np.broadcast_to(vector, table.means.shape)
    nearest = np.maximum.reduceat(table.examples @ vector, table.starts)
    return np.concatenate(
        [
            texts,
            table.means,
            texts * table.means,
            np.abs(texts - table.means),
            (table.means @ vector)[:, None],
            nearest[:, None],
            np.broadcast_to(device, (count, DEVICE_FEATURES)),
            resident.astype(np.float32)[:, None],
        ],
        axis=1,
    )


def candidate_scores(
    weights: Weights,
    vector: Array,
    table: PrototypeTable,
    device: Array,
    resident: NDArray[np.bool_],
) -> Array:
    """The score of each candidate; float32 [candidates]."""
    if not len(table.means):
        return np.empty(0, np.float32)
    inputs = candidate_inputs(vector, table, device, resident)
    hidden = np.maximum(inputs @ weights.candidate_hidden + weights.candidate_hidden_bias, 0)
    scores: Array = (hidden @ weights.candidate_output)[:, 0]
    return scores


def base_score(weights: Weights, vector: Array, device: Array) -> float:
    """The score of the base model without an adapter."""
    inputs = np.concatenate([vector, device])
    hidden = np.maximum(inputs @ weights.base_hidden + weights.base_hidden_bias, 0)
    return float((hidden @ weights.base_output + weights.base_output_bias)[0])


def _unit(vector: Array) -> Array:
    # The floor keeps the zero vector what it is.
    return vector / np.float32(max(float(np.linalg.norm(vector)), 1e-6))


_NONE: NDArray[np.int64] = np.empty(0, np.int64)
