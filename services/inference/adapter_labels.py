"""Which adapters have series of their own: the busiest, a bounded number, also over time. Pure.

A node may know thousands of adapters, and each label that was ever shown costs the Prometheus that
reads it memory for hours. So at most `MOST_LABELS` adapters are shown by themselves at once, and
one takes the place of another only when it has clearly more traffic, and seldom. All that is not
shown by itself adds up in `other`. Every series only grows: an adapter that gets one starts at what
it used since the last look, what it used before stays in `other`, and what went with a series that
ended is not added to another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.inference.engine.shares import OTHER, AdapterShare

MOST_LABELS = 20
BASE = "base"
"""The base model without an adapter."""
_REPLACE_PERIOD_S = 300.0
_CLEARLY = 2.0
_HALF_LIFE_S = 600.0
_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class LabelledShare:
    """What one series shows."""

    label: str
    share: AdapterShare


class AdapterLabels:
    """Keeps the series. Belongs to one thread."""

    def __init__(self) -> None:
        self._known: dict[str, AdapterShare] = {}
        """Totals at the last look: as many as the engine tells by name."""
        self._known_sum = AdapterShare("")
        self._traffic: dict[str, float] = {}
        self._looked_s: float | None = None
        self._replaced_s = -math.inf
        self._base = AdapterShare("")
        self._other = AdapterShare(OTHER)
        self._own: dict[str, AdapterShare] = {}

    def look(self, totals: Sequence[AdapterShare], now_s: float) -> list[LabelledShare]:
        """Takes the engine's totals; returns all series, the sums of what was used since."""
        new = {share.digest: self._since(share) for share in totals if share.digest != OTHER}
        total = _sum(totals)
        rest = _minus(total, self._known_sum)
        self._note_traffic(new, now_s)
        self._choose(now_s)
        for digest in ("", *self._own):
            if (used := new.get(digest)) is not None:
                rest = _minus(rest, used)
                if digest:
                    self._own[digest] = _plus(self._own[digest], used)
                else:
                    self._base = _plus(self._base, used)
        self._other = _plus(self._other, rest)
        self._known = {share.digest: share for share in totals if share.digest != OTHER}
        self._known_sum = total
        return [
            LabelledShare(BASE, self._base),
            *(LabelledShare(_label(digest), share) for digest, share in self._own.items()),
            LabelledShare(OTHER, self._other),
        ]

    def _since(self, share: AdapterShare) -> AdapterShare:
        known = self._known.get(share.digest)
        # One that the engine had put together with others begins anew.
        return share if known is None or known.step_s > share.step_s else _minus(share, known)

    def _note_traffic(self, new: dict[str, AdapterShare], now_s: float) -> None:
        elapsed_s = 0.0 if self._looked_s is None else max(0.0, now_s - self._looked_s)
        kept = 0.5 ** (elapsed_s / _HALF_LIFE_S)
        self._looked_s = now_s
        self._traffic = {
            digest: self._traffic.get(digest, 0.0) * kept + used.step_s
            for digest, used in new.items()
            if digest
        }

    def _choose(self, now_s: float) -> None:
        taken = {_label(digest) for digest in self._own}
        rivals = sorted(
            (digest for digest in self._traffic if _label(digest) not in taken),
            key=lambda digest: -self._traffic[digest],
        )
        for digest in rivals:
            if len(self._own) < MOST_LABELS:
                # Two digests that begin alike: the busier one has the label.
                if _label(digest) not in taken:
                    taken.add(_label(digest))
                    self._own[digest] = AdapterShare(digest)
                continue
            least = min(self._own, key=lambda own: self._traffic.get(own, 0.0))
            is_busier = self._traffic[digest] > _CLEARLY * self._traffic.get(least, 0.0)
            if is_busier and now_s - self._replaced_s >= _REPLACE_PERIOD_S:
                self._replaced_s = now_s
                del self._own[least]
                self._own[digest] = AdapterShare(digest)
            return


def _label(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN_DIGITS]


def _plus(one: AdapterShare, other: AdapterShare) -> AdapterShare:
    return one.plus(*other[1:])


def _minus(one: AdapterShare, other: AdapterShare) -> AdapterShare:
    """What is left, never below 0."""
    return AdapterShare(
        one.digest,
        max(0.0, one.step_s - other.step_s),
        max(0, one.num_prompt_tokens - other.num_prompt_tokens),
        max(0, one.num_output_tokens - other.num_output_tokens),
    )


def _sum(shares: Iterable[AdapterShare]) -> AdapterShare:
    total = AdapterShare("")
    for share in shares:
        total = _plus(total, share)
    return total
