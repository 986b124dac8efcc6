"""The base model in the native core, and two adapters beside each other in its slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights
from edgelora.error_tree import AdapterRejectedError
from services.adapter_store.verification.probes import TokenSequence

if TYPE_CHECKING:
    from edgelora_native import Chunk

Logits = NDArray[np.float32]

NUM_BLOCKS = 160
"""Room for the longest line of a probe twice over, and some."""
_MAX_STEP_TOKENS = 512
_MOST_AT_ONCE = 16
"""Sequences; bounds the memory for logits."""


class MeasuredModel:
    """Runs token sequences with the adapter of a slot, or with none (slot None)."""

    def __init__(self, packed_file: Path, *, vocab_size: int, max_rank: int) -> None:
        """Maps the file. Raises edgelora_native.NativeError."""
        # Only where there is something to measure: importing it loads the core.
        from edgelora_native import (
            BLOCK_TOKENS,
            AdapterFactors,
            Chunk,
            Engine,
            Limits,
            NativeError,
        )

        self._make_chunk, self._make_factors = Chunk, AdapterFactors
        self._native_error = NativeError
        self._block_tokens = BLOCK_TOKENS
        self._vocab_size = vocab_size
        self._engine = Engine(
            packed_file,
            Limits(
                num_kv_blocks=NUM_BLOCKS,
                max_loras=2,
                max_lora_rank=max_rank,
                max_step_tokens=_MAX_STEP_TOKENS,
                num_threads=1,
            ),
        )

    def load(self, slot: int, weights: AdapterWeights) -> None:
        """Puts an adapter into an empty slot. Raises AdapterRejectedError if it can not hold it."""
        factors = [
            self._make_factors(layer, module, pair.lora_a, pair.lora_b, pair.scaling)
            for (layer, module), pair in weights.pairs.items()
        ]
        with self._refusing():
            self._engine.load_adapter(slot, factors)

    def load_encoded(self, slot: int, data: bytes) -> None:
        """Decodes an adapter into an empty slot, as a worker will. Raises AdapterRejectedError."""
        with self._refusing():
            self._engine.load_encoded(slot, data)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except self._native_error as error:
            raise AdapterRejectedError(
                f"the adapter can not be loaded: {error}", field="weights"
            ) from None

    def unload(self, slot: int) -> None:
        """Empties a slot."""
        self._engine.unload_adapter(slot)

    def last_logits(self, token_ids: Sequence[int], slots: Sequence[int | None]) -> Logits:
        """Logits after a prompt of at most 256 tokens, shape [slots, vocab_size]."""
        num_blocks = -(-len(token_ids) // self._block_tokens)
        ids = np.asarray(token_ids, dtype=np.int32)
        return self._forward(
            [
                self._chunk(ids, 0, range(index * num_blocks, (index + 1) * num_blocks), slot, True)
                for index, slot in enumerate(slots)
            ]
        )

    def foretell(
        self, sequences: Sequence[TokenSequence], slots: Sequence[int | None]
    ) -> Iterator[tuple[list[int], NDArray[np.int32], Logits]]:
        """Runs sequences with each of the slots, every token given whatever was foretold.

        Yields (indices of sequences, their next tokens, logits before these tokens of shape
        [those sequences, slots, vocab_size]), until every token behind the given ones has come up.
        """
        first = 0
        while first < len(sequences):
            tables, end = self._block_tables(sequences, first, len(slots))
            yield from self._foretell_group(sequences, range(first, end), tables, slots)
            first = end

    def _block_tables(
        self, sequences: Sequence[TokenSequence], first: int, num_slots: int
    ) -> tuple[list[list[range]], int]:
        """Blocks of as many sequences as have room, for each slot; and the first one that has none.

        A step takes at least one token of each of them.
        """
        tables: list[list[range]] = []
        free = 0
        for sequence in sequences[first:]:
            size = -(-len(sequence.token_ids) // self._block_tokens)
            if len(tables) == _MOST_AT_ONCE or free + size * num_slots > NUM_BLOCKS:
                break
            tables.append([range(free + s * size, free + (s + 1) * size) for s in range(num_slots)])
            free += size * num_slots
        return tables, first + len(tables)

    def _foretell_group(
        self,
        sequences: Sequence[TokenSequence],
        group: range,
        tables: list[list[range]],
        slots: Sequence[int | None],
    ) -> Iterator[tuple[list[int], NDArray[np.int32], Logits]]:
        ids = {i: np.asarray(sequences[i].token_ids, dtype=np.int32) for i in group}
        done = dict.fromkeys(group, 0)
        while live := [i for i in group if done[i] < len(ids[i]) - 1]:
            room = _MAX_STEP_TOKENS // len(slots)
            chunks: list[Chunk] = []
            ready: list[int] = []
            for i in live:
                start = done[i]
                stop = max(sequences[i].num_given, start + 1)
                end = min(stop, start + room)
                if end == start:
                    break
                for table, slot in zip(tables[i - group.start], slots, strict=True):
                    chunks.append(self._chunk(ids[i][start:end], start, table, slot, end == stop))
                room -= end - start
                done[i] = end
                if end == stop:
                    ready.append(i)
            logits = self._forward(chunks)
            if ready:
                following = np.array([ids[i][done[i]] for i in ready], dtype=np.int32)
                yield ready, following, logits.reshape(len(ready), len(slots), -1)

    def _chunk(
        self,
        token_ids: NDArray[np.int32],
        start: int,
        blocks: range,
        slot: int | None,
        needs_logits: bool,
    ) -> Chunk:
        return self._make_chunk(
            token_ids=token_ids,
            start_position=start,
            block_table=blocks,
            adapters=[] if slot is None else [(slot, 1.0)],
            needs_logits=needs_logits,
        )

    def _forward(self, chunks: list[Chunk]) -> Logits:
        # The packed head may have columns more, to fill its last block.
        return self._engine.forward(chunks)[:, : self._vocab_size]
