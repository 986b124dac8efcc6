"""Proof that a loaded adapter does something: a canary prompt's logits with and without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgelora.errors import AdapterRejectedError
from services.inference.backends.base import Backend, SequenceChunk, SlotWeight
from services.inference.engine.sampler import finite_rows

_NOISE = 1e-5
"""Differences up to this share of the largest logit are rounding, not an effect (float32)."""


class EffectCheck:
    """Runs the canary in two sequences of its own, whose KV blocks nobody else uses."""

    def __init__(self, token_ids: Sequence[int], block_tables: tuple[list[int], list[int]]) -> None:
        self._token_ids = np.asarray(token_ids, dtype=np.int32)
        self._block_tables = block_tables

    def run(self, backend: Backend, slot: int) -> None:
        """Raises AdapterRejectedError when a slot's adapter changes nothing or overflows."""
        uses: tuple[tuple[SlotWeight, ...], ...] = ((), (SlotWeight(slot, 1.0),))
        base, adapted = backend.forward(
            [
                SequenceChunk(
                    token_ids=self._token_ids,
                    start_position=0,
                    block_table=table,
                    adapters=adapters,
                    needs_logits=True,
                )
                for table, adapters in zip(self._block_tables, uses, strict=True)
            ]
        )
        if not finite_rows(adapted[np.newaxis])[0]:
            raise AdapterRejectedError(
                "the adapter makes the model overflow: train it with smaller weights",
                field="weights",
            )
        if np.abs(adapted - base).max() <= _NOISE * np.abs(base).max():
            raise AdapterRejectedError(
                "the adapter changes nothing in the model's answers: check that it was trained",
                field="weights",
            )
