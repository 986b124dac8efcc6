"""Draws what the router's network sees in one training step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from edgelora.routing.features import TextFeatures, text_features
from edgelora.routing.network import DEVICE_FEATURES, NgramVector, mean_ngrams, ngram_vector
from edgelora.toolchain.router_targets import Matrix, TargetRules, load_prices, shares

_TEXTS = 64
_STRANGERS = 0.15
"""Share of the texts whose adapter is left out, or that have none."""
_OUTLIERS = 8
"""Most texts made by mixing two of different domains."""
_MIX = (0.3, 0.7)
_MAX_EXAMPLES = 32
"""Most examples of a prototype; as few as one are drawn."""
_ADAPTER_DROPOUT = 0.3
_SEVERITIES = (0.0, 0.0, 0.5, 1.0)
_UNKNOWN_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTexts:
    """The texts to learn from. Domains are numbered like the adapters, from 0."""

    texts: Sequence[str]
    domains: NDArray[np.int64]
    """[texts]; the number of adapters stands for no domain at all."""
    losses: Matrix
    """[texts, 1 + adapters], the base's first"""
    cards: Sequence[Sequence[str]]
    """For each adapter the texts its card says it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One training step. Rows are texts, then outliers; columns adapters."""

    texts: list[TextFeatures]
    examples: list[TextFeatures]
    """The same number for each adapter, adapter by adapter."""
    num_adapters: int
    columns: torch.Tensor
    """Which adapter each text belongs to; `num_adapters` when it is not there. [texts]"""
    pairs: torch.Tensor
    """Which two texts each outlier is mixed of; int64 [outliers, 2]"""
    mix: torch.Tensor
    """Share of the first of the two; [outliers]"""
    overlap: torch.Tensor
    """Cosines of n-grams; [rows, adapters]"""
    device: torch.Tensor
    """[rows, DEVICE_FEATURES]"""
    resident: torch.Tensor
    """0 or 1; [rows, adapters]"""
    targets: torch.Tensor
    """Shares, the base's last; [rows, adapters + 1]"""


class TextPool:
    """Everything to draw from. The same seed draws the same."""

    def __init__(
        self, data: RoutedTexts, num_buckets: int, rules: TargetRules, order: np.random.Generator
    ) -> None:
        self._losses = data.losses
        self._domains = data.domains
        self._rules = rules
        self._order = order
        self._members = [np.flatnonzero(data.domains == one) for one in np.unique(data.domains)]
        every = [*data.texts, *itertools.chain(*data.cards)]
        self._features = [text_features(text, num_buckets) for text in every]
        self.rarity = _rarity(self._features[: len(data.texts)], self._members, num_buckets)
        """As in `Weights`; float32 [buckets]"""
        self._ngrams = [ngram_vector(one, self.rarity) for one in self._features]
        # Texts that are the same share a number, and none is an example while it is to be routed.
        numbers = {text: number for number, text in enumerate(dict.fromkeys(every))}
        self._identity = np.array([numbers[text] for text in every])
        ends = len(data.texts) + np.cumsum([len(card) for card in data.cards])
        self._pools = [
            np.concatenate(
                [np.flatnonzero(data.domains == adapter), np.arange(end - len(card), end)]
            )
            for adapter, (card, end) in enumerate(zip(data.cards, ends, strict=True))
        ]

    def draw(self) -> Draw:
        """Texts of all domains alike, some adapters, and a device and residency at random."""
        order = self._order
        adapters = self._adapters()
        domains = self._draw_domains(adapters)
        chosen = np.array([order.choice(self._members[domain]) for domain in domains])
        count = int(order.integers(1, _MAX_EXAMPLES + 1))
        examples = [self._examples(adapter, chosen, count) for adapter in adapters]
        pairs = order.integers(_TEXTS, size=(_OUTLIERS, 2))
        pairs = pairs[domains[pairs[:, 0]] != domains[pairs[:, 1]]]
        mix = order.uniform(*_MIX, len(pairs)).astype(np.float32)
        rows = _TEXTS + len(pairs)
        device = self._device(rows)
        resident = order.random((rows, len(adapters))) < order.random()
        prices = np.where(resident, 0, load_prices(device)[:, None]).astype(np.float32)
        return Draw(
            texts=[self._features[index] for index in chosen],
            examples=[self._features[index] for index in itertools.chain(*examples)],
            num_adapters=len(adapters),
            columns=torch.from_numpy(self._columns(domains, adapters)),
            pairs=torch.from_numpy(pairs),
            mix=torch.from_numpy(mix),
            overlap=torch.from_numpy(self._overlap(chosen, examples, pairs, mix)),
            device=torch.from_numpy(device),
            resident=torch.from_numpy(resident.astype(np.float32)),
            targets=torch.from_numpy(self._targets(chosen, adapters, prices)),
        )

    def _adapters(self) -> NDArray[np.int64]:
        """Which adapters are there: at least one."""
        count = len(self._pools)
        present = self._order.random(count) >= _ADAPTER_DROPOUT
        present[self._order.integers(count)] = True
        return np.flatnonzero(present)

    def _draw_domains(self, adapters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Domains of the texts: of the adapters, and a few of others."""
        strangers = np.setdiff1d(np.arange(len(self._members)), adapters)
        domains = self._order.choice(adapters, _TEXTS)
        if len(strangers):
            strange = self._order.random(_TEXTS) < _STRANGERS
            domains[strange] = self._order.choice(strangers, int(strange.sum()))
        return domains

    def _columns(
        self, domains: NDArray[np.int64], adapters: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        columns = np.full(len(self._members), len(adapters))
        columns[adapters] = np.arange(len(adapters))
        return columns[domains]

    def _examples(self, adapter: int, chosen: NDArray[np.int64], count: int) -> list[int]:
        pool = self._pools[adapter]
        free = pool[~np.isin(self._identity[pool], self._identity[chosen])]
        drawn: list[int] = self._order.choice(free if len(free) else pool, count).tolist()
        return drawn

    def _device(self, rows: int) -> Matrix:
        device = np.zeros((rows, DEVICE_FEATURES), np.float32)
        shape = (rows, DEVICE_FEATURES // 2)
        unknown = self._order.random(shape) < _UNKNOWN_SHARE
        device[:, ::2] = np.where(unknown, 0, self._order.choice(_SEVERITIES, shape))
        device[:, 1::2] = unknown
        return device

    def _overlap(
        self,
        chosen: NDArray[np.int64],
        examples: Sequence[Sequence[int]],
        pairs: NDArray[np.int64],
        mix: Matrix,
    ) -> Matrix:
        """Of an outlier: as if its two texts shared no n-gram, which is nearly so."""
        columns = np.zeros((len(self.rarity), len(examples)), np.float32)
        for column, indices in enumerate(examples):
            mean = self._mean([self._ngrams[index] for index in indices])
            columns[mean.buckets, column] = mean.values
        texts = [self._ngrams[index] for index in chosen]
        overlap = np.stack([one.values @ columns[one.buckets] for one in texts])
        first, second = mix[:, None], 1 - mix[:, None]
        mixed = first * overlap[pairs[:, 0]] + second * overlap[pairs[:, 1]]
        return np.concatenate([overlap, mixed / np.hypot(first, second)])

    def _mean(self, vectors: Sequence[NgramVector]) -> NgramVector:
        return mean_ngrams(vectors, len(self.rarity))

    def _targets(
        self, chosen: NDArray[np.int64], adapters: NDArray[np.int64], prices: Matrix
    ) -> Matrix:
        """An outlier is the base's."""
        every = np.full((len(chosen), len(self._pools)), np.inf, np.float32)
        every[:, adapters] = prices[: len(chosen)]
        wanted = shares(self._losses[chosen], every, self._rules)
        targets = np.zeros((len(prices), len(adapters) + 1), np.float32)
        targets[: len(chosen), :-1] = wanted[:, 1 + adapters]
        targets[: len(chosen), -1] = wanted[:, 0]
        targets[len(chosen) :, -1] = 1
        return targets


def _rarity(
    texts: Sequence[TextFeatures], members: Sequence[NDArray[np.int64]], num_buckets: int
) -> Matrix:
    """Inverse document frequency (Sparck Jones, 1972) of each bucket; every domain counts alike."""
    share = np.full(num_buckets, 1 / len(texts))
    for indices in members:
        for index in indices:
            share[np.unique(texts[index].buckets)] += 1 / (len(indices) * len(members))
    return np.log1p(1 / share).astype(np.float32)
