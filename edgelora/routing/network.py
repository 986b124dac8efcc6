"""The router's network: a text becomes a vector, and each candidate a score.

Words are means of n-gram embeddings; a convolution over three words at a time and pooling make the
text's vector. Beside what was learned stand the n-grams themselves, weighted by rarity, in which
texts of a kind that training never saw can still be compared. A candidate is its example prompts,
in both forms; two-layer MLPs score it, and the base model, which is always a choice. Float32 and
numpy alone: serving needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from edgelora.routing.features import TextFeatures, text_features

Array = NDArray[np.float32]

DEVICE_FEATURES = 6
"""Severity and whether it is unknown, of temperature, memory and battery."""
COSINES = 4
"""Of vectors to the prototype's and to the nearest example's; of n-grams to the prototype's; and
how much the example vectors agree: the length of their mean. Those of an adapter that training
never saw are scattered, and its n-grams say more."""
CONVOLUTION_WORDS = 3
MAX_BUCKETS = 1 << 16
"""Each candidate takes 4 bytes of memory for every bucket."""
MAX_SIZE = 512
"""Of a layer: what one decision costs grows with it."""


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

    rarity: Array
    """Of the n-grams in each bucket: the logarithm of 1 over their share of texts; [buckets]"""
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
    """[4 * width + COSINES + DEVICE_FEATURES + 1, hidden], inputs as in `_candidate_inputs`"""
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
        """Raises ValueError when shapes do not fit or are too large, or a value is not finite."""
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
            "rarity": (shapes["embedding"][0],),
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
        if shapes["embedding"][0] > MAX_BUCKETS:
            raise ValueError(f"it has more than {MAX_BUCKETS} buckets")
        if max(embedding, channels, width, hidden, base) > MAX_SIZE:
            raise ValueError(f"a layer is larger than {MAX_SIZE}")
        for name, shape in expected.items():
            if shapes[name] != shape:
                raise ValueError(f"{name} does not fit the other tensors")
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} holds a value that is not finite")


@dataclass(frozen=True, slots=True)
class NgramVector:
    """A sparse vector of length 1 over the buckets."""

    buckets: NDArray[np.int64]
    """Ascending; [entries]"""
    values: Array
    """[entries]"""


@dataclass(frozen=True, slots=True)
class TextVector:
    """A text as the network sees it."""

    vector: Array
    """Learned, of length 1; [width]"""
    ngrams: NgramVector


def text_vector(weights: Weights, text: str) -> TextVector:
    """What the router makes of a text."""
    features = text_features(text, weights.num_buckets)
    return TextVector(_vector(weights, features), ngram_vector(features, weights.rarity))


def ngram_vector(features: TextFeatures, rarity: Array) -> NgramVector:
    """The root of each n-gram's count times its rarity, scaled to length 1."""
    counts = np.bincount(features.buckets, minlength=len(rarity))
    buckets = np.flatnonzero(counts)
    values = np.sqrt(counts[buckets]).astype(np.float32) * rarity[buckets]
    return NgramVector(buckets, _unit(values))


def mean_ngrams(vectors: Sequence[NgramVector], num_buckets: int) -> NgramVector:
    """The mean of vectors, scaled to length 1."""
    buckets = np.concatenate([one.buckets for one in vectors])
    values = np.concatenate([one.values for one in vectors])
    sums = np.bincount(buckets, values, num_buckets).astype(np.float32)
    present = np.flatnonzero(sums)
    return NgramVector(present, _unit(sums[present]))


def _vector(weights: Weights, features: TextFeatures) -> Array:
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
    """What a candidate is for: its example prompts."""

    examples: Array
    """Their vectors, [examples, width]"""
    ngrams: NgramVector
    """Their mean"""

    @classmethod
    def of(cls, texts: Sequence[TextVector], num_buckets: int) -> Prototype:
        """Puts examples together; at least one."""
        examples = np.stack([one.vector for one in texts])
        return cls(examples, mean_ngrams([one.ngrams for one in texts], num_buckets))


@dataclass(frozen=True, slots=True)
class PrototypeTable:
    """The prototypes of all candidates, side by side; built once for each set of candidates."""

    means: Array
    """Mean of each candidate's example vectors, of length 1; [candidates, width]"""
    agreement: Array
    """Length of the means before; [candidates]"""
    examples: Array
    """[all examples, width]"""
    starts: NDArray[np.int64]
    """Where each candidate's examples begin; [candidates]"""
    ngrams: Array
    """[buckets, candidates]: a text touches few of the rows"""

    @classmethod
    def of(cls, prototypes: Sequence[Prototype], weights: Weights) -> PrototypeTable:
        """Stacks the prototypes in their order."""
        ngrams = np.zeros((weights.num_buckets, len(prototypes)), np.float32)
        for column, one in enumerate(prototypes):
            ngrams[one.ngrams.buckets, column] = one.ngrams.values
        none = np.empty((0, weights.width), np.float32)
        counts = [len(one.examples) for one in prototypes]
        means = np.array([one.examples.mean(0) for one in prototypes], np.float32)
        means = means.reshape(-1, weights.width)
        lengths = np.linalg.norm(means, axis=1)
        return cls(
            means=means / np.maximum(lengths, _TINY)[:, None],
            agreement=lengths,
            examples=np.concatenate([none, *(one.examples for one in prototypes)]),
            starts=np.cumsum([0, *counts])[:-1],
            ngrams=ngrams,
        )


def candidate_scores(
    weights: Weights,
    text: TextVector,
    table: PrototypeTable,
    device: Array,
    resident: NDArray[np.bool_],
) -> Array:
    """The score of each candidate; float32 [candidates]."""
    if not len(table.means):
        return np.empty(0, np.float32)
    inputs = _candidate_inputs(text, table, device, resident)
    hidden = np.maximum(inputs @ weights.candidate_hidden + weights.candidate_hidden_bias, 0)
    scores: Array = (hidden @ weights.candidate_output)[:, 0]
    return scores


def base_score(weights: Weights, text: TextVector, device: Array) -> float:
    """The score of the base model without an adapter."""
    inputs = np.concatenate([text.vector, device])
    hidden = np.maximum(inputs @ weights.base_hidden + weights.base_hidden_bias, 0)
    return float((hidden @ weights.base_output + weights.base_output_bias)[0])


def _candidate_inputs(
    text: TextVector, table: PrototypeTable, device: Array, resident: NDArray[np.bool_]
) -> Array:
    """What the MLP sees of each candidate; float32 [candidates, inputs]: text, prototype, product,
    absolute difference, cosines, device, whether a worker holds it."""
    vectors = np.broadcast_to(text.vector, table.means.shape)
    nearest = np.maximum.reduceat(table.examples @ text.vector, table.starts)
    return np.concatenate(
        [
            vectors,
            table.means,
            vectors * table.means,
            np.abs(vectors - table.means),
            (table.means @ text.vector)[:, None],
            nearest[:, None],
            (text.ngrams.values @ table.ngrams[text.ngrams.buckets])[:, None],
            table.agreement[:, None],
            np.broadcast_to(device, (len(table.means), DEVICE_FEATURES)),
            resident.astype(np.float32)[:, None],
        ],
        axis=1,
    )


def _unit(vector: Array) -> Array:
    return np.asarray(vector / np.maximum(np.linalg.norm(vector), _TINY), np.float32)


_TINY = np.float32(1e-6)
"""Keeps the zero vector what it is."""
