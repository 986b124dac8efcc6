"""Everything that happens between two steps of the encoder and in one, without threads.

Owned by one thread. What has to be told to the outside is collected in an `EncoderOutbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.errors import AdapterNotFoundError, EdgeLoraError, InternalError
from services.chassis.logs import get_logger
from services.inference.encoder.adapters import EncoderAdapters
from services.inference.encoder.backend import EncoderBackend, EncoderLimits, EncoderText, Pooling
from services.inference.encoder.effect_proof import EffectProof
from services.inference.encoder.encoding import Encoded, Encoding
from services.inference.encoder.outbox import EncoderOutbox
from services.inference.encoder.status import EncoderStatus
from services.inference.encoder.text_queue import ChosenText, StepBudget, TextQueue
from services.inference.engine.adapter_slots import AdapterSlots
from services.inference.engine.shares import Row, Shares, adapter_parameters

StepObserver = Callable[[float, Sequence[Row]], None]
"""Told the seconds of each step and what its texts were; on the engine's thread, so it must be
quick, and must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEngineConfig:
    """What the engine is built with."""

    model_directory: Path
    limits: EncoderLimits
    budget: StepBudget
    canary_token_ids: NDArray[np.int32]
    pooling: Pooling
    """Of embeddings."""
    max_requests: int
    """That have not ended; further ones are refused."""


class EncoderSteps:
    """Adds, runs and removes requests."""

    def __init__(
        self, backend: EncoderBackend, config: EncoderEngineConfig, clock: Callable[[], float]
    ) -> None:
        """Loads the model. Raises what that raises."""
        model = backend.load_model(config.model_directory, config.limits)
        self._backend = backend
        self._clock = clock
        self._queue = TextQueue(config.budget)
        num_slots = config.limits.max_loras
        # A back end that keeps nothing for them has slots all the same.
        self.slots = AdapterSlots(
            num_slots, slot_bytes=max(1, backend.adapter_slots_bytes // num_slots)
        )
        self.adapters = EncoderAdapters(
            backend,
            self.slots,
            self._queue,
            EffectProof(backend, config.canary_token_ids),
            pooling=config.pooling,
            fail=self._end,
            clock=clock,
        )
        linear = sum(rows * columns for rows, columns in model.targets.values())
        self._num_adapter_parameters = adapter_parameters(model, config.limits.max_lora_rank)
        self._shares = Shares(model.num_layers * linear, self._parameters_of)
        self._num_steps = self._num_texts = self._num_tokens = self._num_failed_texts = 0
        self._last_step_s = clock()
        self.observe: StepObserver | None = None

    def take_outbox(self) -> EncoderOutbox:
        """Returns what was collected since the last call."""
        outbox, self.adapters.outbox = self.adapters.outbox, EncoderOutbox()
        return outbox

    def add(self, encoding: Encoding) -> None:
        """Queues a new request."""
        self._queue.add(encoding)
        if self.adapters.are_deleted(encoding.digests):
            self._end(encoding, AdapterNotFoundError("the adapter was deleted"))

    def cancel(self, encoding_id: int) -> None:
        """Frees all a request holds. Unknown and ended ones are ignored."""
        encoding = self._queue.find(encoding_id)
        if encoding is not None:
            self._remove(encoding)

    def fail_all(self, error: EdgeLoraError) -> None:
        """Ends every request."""
        for encoding in list(self._queue):
            self._end(encoding, error)

    def step(self) -> bool:
        """Runs one step; False when there was nothing to run."""
        now_s = self._clock()
        self.adapters.drop_deleted()
        self.adapters.admit(now_s)
        chosen = self._queue.choose(self.adapters.is_ready, now_s)
        if not chosen:
            return False
        rows = [
            Row(each.encoding.digests, each.num_tokens, is_prompt=True, has_output=False)
            for each in chosen
        ]
        vectors = self._encode([self._to_text(each) for each in chosen])
        self._last_step_s = self._clock()
        step_s = self._last_step_s - now_s
        self._num_steps += 1
        if self.observe is not None:
            self.observe(step_s, rows)
        for encoding in {each.encoding.encoding_id: each.encoding for each in chosen}.values():
            encoding.num_steps += 1
        times_s = self._shares.divide(step_s, rows)
        for each, vector, row_s in zip(chosen, vectors, times_s, strict=True):
            self._accept(each, vector, row_s, now_s)
        return True

    def status(self) -> EncoderStatus:
        """Counts now."""
        return EncoderStatus(
            num_requests=len(self._queue),
            num_adapter_slots=len(self.slots.slots),
            num_slot_waits=self.adapters.num_slot_waits,
            adapter_budget_bytes=self.slots.budget_bytes,
            num_steps=self._num_steps,
            num_texts=self._num_texts,
            num_tokens=self._num_tokens,
            num_failed_texts=self._num_failed_texts,
            step_s=self._shares.step_s,
            shares=self._shares.totals(),
            last_step_s=self._last_step_s,
            slots=self.adapters.statuses(),
            weights_bytes=self._backend.weights_bytes,
            adapter_slots_bytes=self._backend.adapter_slots_bytes,
        )

    def _to_text(self, chosen: ChosenText) -> EncoderText:
        encoding = chosen.encoding
        return EncoderText(
            token_ids=encoding.texts[chosen.index],
            adapters=self.adapters.slot_weights(encoding),
            pooling=self.adapters.pooling_of(encoding),
        )

    def _encode(self, texts: list[EncoderText]) -> list[NDArray[np.float32] | None]:
        """Runs texts; None for one that fails.

        When the batch fails, each runs alone, so that only those that fail by themselves do.
        """
        try:
            vectors = self._backend.encode(texts)
        except Exception as error:  # noqa: BLE001 - one bad text must not end the others
            get_logger().error("encode_failed", error=type(error).__name__, num_texts=len(texts))
            if len(texts) == 1:
                return [None]
            return [vector for text in texts for vector in self._encode([text])]
        return [vector if np.isfinite(vector).all() else None for vector in vectors]

    def _accept(
        self, chosen: ChosenText, vector: NDArray[np.float32] | None, row_s: float, started_s: float
    ) -> None:
        """Takes the result of one text; ends its request with the last one."""
        encoding = chosen.encoding
        self._num_texts += 1
        self._num_tokens += chosen.num_tokens
        encoding.engine_s += row_s
        if self._queue.find(encoding.encoding_id) is None:
            return  # another text of it has failed in this step
        if vector is None:
            self._num_failed_texts += 1
            get_logger().error("text_failed", digests=encoding.digests)
            self._end(encoding, InternalError("the model's output was not a number"))
            return
        if not encoding.vectors:
            encoding.queue_s = started_s - encoding.arrived_s - encoding.load_s
        encoding.vectors.append(vector)
        if len(encoding.vectors) == len(encoding.texts):
            self._end(encoding, self._encoded(encoding))

    def _encoded(self, encoding: Encoding) -> Encoded:
        return Encoded(
            vectors=tuple(encoding.vectors),
            head=self.adapters.head_of(encoding),
            num_tokens=sum(map(len, encoding.texts)),
            queue_s=encoding.queue_s,
            adapter_load_s=encoding.load_s,
            engine_s=encoding.engine_s,
            num_steps=encoding.num_steps,
        )

    def _end(self, encoding: Encoding, result: Encoded | EdgeLoraError) -> None:
        self.adapters.outbox.ends.append((encoding.encoding_id, result))
        self._remove(encoding)

    def _remove(self, encoding: Encoding) -> None:
        self._queue.remove(encoding)
        self.adapters.release(encoding, self._clock())

    def _parameters_of(self, digest: str) -> int:
        # In proportion to the largest adapter there can be, whatever the back end keeps of it.
        slot = self.slots.find(digest)
        size = 0.0 if slot is None else slot.size_bytes / self.slots.slot_bytes
        return int(size * self._num_adapter_parameters)
