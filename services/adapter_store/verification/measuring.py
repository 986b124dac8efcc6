"""Chooses an adapter's serving form by what encoding it costs, measured with the model itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgelora.adapter_format import AdapterWeights
from edgelora.error_tree import AdapterRejectedError
from services.adapter_store.verification import probe_texts
from services.adapter_store.verification.certificate import (
    Divergence,
    Encoding,
    Measurement,
    TaskMetric,
)
from services.adapter_store.verification.divergence import DivergenceSum
from services.adapter_store.verification.effect import check_finite, try_canary
from services.adapter_store.verification.measured_model import MeasuredModel
from services.adapter_store.verification.probes import TokenSequence

ENGINE = "edgelora_native"
ORIGINAL = "the file's factors in the core's slots: 8 bits, half-precision scales"
MAX_TASK_LOSS = 0.01
"""Largest loss of right tokens of the adapter's own probe, relative to the original's."""
MAX_LINES_LOST = 1
"""Of the probe. Rounding alone makes a line change sides, and 64 lines do not resolve 1 %."""
DEVIATIONS = 2.0
"""A loss counts as far as it exceeds so many standard deviations of tokens that change sides by
chance, as likely to the better as to the worse (McNemar's test)."""

_ORIGINAL, _ENCODED = 0, 1
"""Slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedForm:
    """An adapter in one level of the codec."""

    encoding: Encoding
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenForm:
    """What was chosen, and what was measured of it."""

    encoded: EncodedForm | None
    """None: the original."""
    why_exact: str
    """Why the original; empty when it is not."""
    measurement: Measurement


class Comparison:
    """One adapter in the model's slots: the original, and beside it one encoded form after the
    other."""

    def __init__(
        self,
        model: MeasuredModel,
        original: AdapterWeights,
        *,
        canary: Sequence[int],
        texts: Sequence[TokenSequence],
        probe: Sequence[TokenSequence],
    ) -> None:
        """`canary`: token ids of the prompt. `probe`: the adapter's own, empty when it has none.

        Raises AdapterRejectedError when no slot can hold the adapter.
        """
        self._model = model
        self._canary = canary
        self._texts = texts
        self._probe = probe
        model.load(_ORIGINAL, original)

    def keep_original(self, why: str) -> ChosenForm:
        """The original as serving form. Raises AdapterRejectedError as `try_canary`."""
        return ChosenForm(
            encoded=None, why_exact=why, measurement=self._measurement(_ORIGINAL, None, None)
        )

    def choose(self, forms: Iterable[EncodedForm], max_mean_kl: float) -> ChosenForm:
        """Takes the first form within both bounds, and the original when none is.

        `max_mean_kl`, in nats, bounds the built-in texts and the adapter's own probe. Raises
        AdapterRejectedError when the adapter has no effect or makes the model overflow.
        """
        for form in forms:
            chosen = self._try(form, max_mean_kl)
            if chosen is not None:
                return chosen
        return self.keep_original("no level of the codec keeps the bounds")

    def attempt(self, form: EncodedForm, max_mean_kl: float) -> ChosenForm | None:
        """Takes a form that need not be any good, within the same bounds; None when it is not."""
        try:
            return self._try(form, max_mean_kl)
        except AdapterRejectedError:
            return None

    def _try(self, form: EncodedForm, max_mean_kl: float) -> ChosenForm | None:
        self._model.load_encoded(_ENCODED, form.data)
        try:
            divergence = self._compare(self._texts)
            task = self._task() if self._probe else None
            if not is_within_bounds(divergence, task, max_mean_kl):
                return None
            measurement = self._measurement(_ENCODED, divergence, task)
        finally:
            self._model.unload(_ENCODED)
        return ChosenForm(encoded=form, why_exact="", measurement=measurement)

    def _measurement(
        self, slot: int, divergence: Divergence | None, task: TaskMetric | None
    ) -> Measurement:
        return Measurement(
            engine=ENGINE,
            original=ORIGINAL,
            probe=probe_texts.NAME,
            divergence=divergence,
            task=task,
            canary=try_canary(self._model, self._canary, slot),
        )

    def _compare(self, sequences: Sequence[TokenSequence]) -> Divergence:
        total = DivergenceSum()
        for _, _, logits in self._model.foretell(sequences, (_ORIGINAL, _ENCODED)):
            check_finite(logits)
            total.add(logits[:, 0], logits[:, 1])
        return total.result()

    def _task(self) -> TaskMetric:
        total = DivergenceSum()
        right = np.ones((len(self._probe), 2), dtype=bool)
        kept = lost = gained = 0
        for lines, following, logits in self._model.foretell(self._probe, (_ORIGINAL, _ENCODED)):
            check_finite(logits)
            total.add(logits[:, 0], logits[:, 1])
            hits = logits.argmax(axis=2) == following[:, np.newaxis]
            right[lines] &= hits
            before, after = hits.T
            kept += int((before & after).sum())
            lost += int((before & ~after).sum())
            gained += int((after & ~before).sum())
        return TaskMetric(
            lines=len(self._probe),
            before=float(right[:, 0].mean()),
            after=float(right[:, 1].mean()),
            tokens_right=kept + lost,
            tokens_lost=lost,
            tokens_gained=gained,
            divergence=total.result(),
        )


def is_within_bounds(divergence: Divergence, task: TaskMetric | None, max_mean_kl: float) -> bool:
    """Whether an encoded form is near enough to its original to take its place."""
    if divergence.mean_kl > max_mean_kl:
        return False
    if task is None:
        return True
    by_chance = DEVIATIONS * math.sqrt(task.tokens_lost + task.tokens_gained)
    loss = task.tokens_lost - task.tokens_gained - by_chance
    return (
        task.divergence.mean_kl <= max_mean_kl
        and loss <= MAX_TASK_LOSS * task.tokens_right
        and round((task.before - task.after) * task.lines) <= MAX_LINES_LOST
    )
