"""Proof that an adapter does something: the model's next words after the canary prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgelora.error_tree import AdapterRejectedError
from services.adapter_store.verification.certificate import Canary, CanaryLogit
from services.adapter_store.verification.measured_model import Logits, MeasuredModel
from services.chassis.canary import NUM_CANARY_LOGITS

_NOISE = 1e-5
"""Differences up to this share of the largest logit are rounding, not an effect (float32)."""


def try_canary(model: MeasuredModel, token_ids: Sequence[int], slot: int) -> Canary:
    """Runs the prompt with the adapter of a slot and without.

    Raises AdapterRejectedError when it changes nothing or makes the model overflow.
    """
    base, adapted = model.last_logits(token_ids, (None, slot))
    check_finite(adapted)
    change = float(np.abs(adapted - base).max())
    if change <= _NOISE * float(np.abs(base).max()):
        raise AdapterRejectedError(
            "the adapter changes nothing in the model's answers: check that it was trained",
            field="weights",
        )
    # Of equal logits the lower token id comes first.
    order = np.argsort(-adapted, kind="stable")[:NUM_CANARY_LOGITS]
    return Canary(
        token_ids=tuple(token_ids),
        largest=tuple(CanaryLogit(token_id=int(i), logit=float(adapted[i])) for i in order),
        largest_change=change,
    )


def check_finite(logits: Logits) -> None:
    """Raises AdapterRejectedError when a logit is infinite or NaN."""
    if not np.isfinite(logits).all():
        raise AdapterRejectedError(
            "the adapter makes the model overflow: train it with smaller weights",
            field="weights",
        )
