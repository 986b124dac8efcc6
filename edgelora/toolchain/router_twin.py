"""The router's network in torch, to be trained; `edgelora.routing.network` in numpy serves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from edgelora.routing.features import TextFeatures
from edgelora.routing.network import CONVOLUTION_WORDS, COSINES, DEVICE_FEATURES, Weights

_EMBEDDING_SCALE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkShape:
    """The sizes of a router's network."""

    num_buckets: int = 8192
    embedding: int = 32
    channels: int = 48
    width: int = 64
    hidden: int = 64
    base_hidden: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropout:
    """What training hides, as shares."""

    ngrams: float = 0.0
    """Of the n-grams of a text."""
    positions: float = 0.0
    """Of the inputs that say where text and prototype are: what counts is how near they are."""


_NOTHING = Dropout()


class RouterTwin(nn.Module):
    """The same arithmetic as `edgelora.routing.network`, for many texts at once."""

    def __init__(self, shape: NetworkShape, rarity: torch.Tensor) -> None:
        """`rarity`: that of `Weights`; it is counted, not trained."""
        super().__init__()
        self.register_buffer("rarity", rarity)
        candidate = 4 * shape.width + COSINES + DEVICE_FEATURES + 1
        embedding = torch.randn(shape.num_buckets, shape.embedding) * _EMBEDDING_SCALE
        self.embedding = nn.Parameter(embedding)
        self.convolution = _matrix(CONVOLUTION_WORDS * shape.embedding, shape.channels)
        self.convolution_bias = nn.Parameter(torch.zeros(shape.channels))
        self.text = _matrix(shape.embedding + 2 * shape.channels, shape.width)
        self.text_bias = nn.Parameter(torch.zeros(shape.width))
        self.candidate_hidden = _matrix(candidate, shape.hidden)
        self.candidate_hidden_bias = nn.Parameter(torch.zeros(shape.hidden))
        self.candidate_output = _matrix(shape.hidden, 1)
        self.base_hidden = _matrix(shape.width + DEVICE_FEATURES, shape.base_hidden)
        self.base_hidden_bias = nn.Parameter(torch.zeros(shape.base_hidden))
        self.base_output = _matrix(shape.base_hidden, 1)
        self.base_output_bias = nn.Parameter(torch.zeros(1))

    def vectors(self, texts: Sequence[TextFeatures], dropout: Dropout = _NOTHING) -> torch.Tensor:
        """The vectors of texts, float32 [texts, width]."""
        counts = torch.tensor([len(text.starts) for text in texts])
        shifts = np.cumsum([0, *(len(text.buckets) for text in texts[:-1])])
        buckets = torch.from_numpy(
            np.concatenate([text.buckets for text in texts]).astype(np.int64)
        )
        starts = torch.from_numpy(
            np.concatenate([text.starts + at for text, at in zip(texts, shifts, strict=True)])
        )
        kept = functional.dropout(torch.ones(len(buckets)), dropout.ngrams)
        sizes = torch.diff(starts, append=torch.tensor([len(buckets)]))
        words = functional.embedding_bag(
            buckets, self.embedding, starts, mode="sum", per_sample_weights=kept
        ) / sizes[:, None].to(kept.dtype)
        present = torch.arange(int(counts.max()))[None] < counts[:, None]
        grid = words.new_zeros((*present.shape, words.shape[1]))
        grid[present] = words
        padded = functional.pad(grid, (0, 0, 1, 1))
        windows = torch.cat([padded[:, :-2], grid, padded[:, 2:]], 2)
        channels = functional.relu(windows @ self.convolution + self.convolution_bias)
        channels = channels * present[:, :, None]  # at least 0, so that the largest is unchanged
        size = counts[:, None].to(words.dtype)
        pooled = torch.cat([grid.sum(1) / size, channels.sum(1) / size, channels.amax(1)], 1)
        return _unit(pooled @ self.text + self.text_bias)

    def scores(
        self,
        vectors: torch.Tensor,
        examples: torch.Tensor,
        overlap: torch.Tensor,
        device: torch.Tensor,
        resident: torch.Tensor,
        dropout: Dropout = _NOTHING,
    ) -> torch.Tensor:
        """Scores of each candidate, then the base; float32 [texts, candidates + 1].

        `vectors`: [texts, width]; `examples`: [candidates, examples, width]; `overlap`: cosines of
        n-grams, [texts, candidates]; `device`: [texts, DEVICE_FEATURES]; `resident`: 0 or 1,
        [texts, candidates].
        """
        means = examples.mean(1)
        agreement = means.norm(dim=1)
        means = _unit(means)
        size = (len(vectors), len(means), -1)
        text = vectors[:, None].expand(*size)
        prototype = means[None].expand(*size)
        nearest = torch.einsum("tw,cew->tce", vectors, examples).amax(2)
        inputs = torch.cat(
            [
                functional.dropout(torch.cat([text, prototype], 2), dropout.positions),
                text * prototype,
                (text - prototype).abs(),
                (vectors @ means.T)[:, :, None],
                nearest[:, :, None],
                overlap[:, :, None],
                agreement[None, :, None].expand(len(vectors), -1, -1),
                device[:, None].expand(*size),
                resident[:, :, None],
            ],
            2,
        )
        hidden = functional.relu(inputs @ self.candidate_hidden + self.candidate_hidden_bias)
        candidates = (hidden @ self.candidate_output)[:, :, 0]
        position = functional.dropout(vectors, dropout.positions)
        base = functional.relu(
            torch.cat([position, device], 1) @ self.base_hidden + self.base_hidden_bias
        )
        return torch.cat([candidates, base @ self.base_output + self.base_output_bias], 1)

    def weights(self) -> Weights:
        """The parameters, for serving."""
        state = self.state_dict()
        return Weights(**{one.name: state[one.name].numpy().copy() for one in fields(Weights)})


def _matrix(inputs: int, outputs: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(inputs, outputs) * inputs**-0.5)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return functional.normalize(vectors, dim=-1, eps=1e-6)
