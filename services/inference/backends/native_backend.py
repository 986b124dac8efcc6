"""The native back end: the C++ core in services/inference/native, through its Python package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from services.chassis.base_model import NATIVE_FILE, BaseModel, read_object
from services.chassis.native_core import native_core_obstacle
from services.inference.backends.base import (
    BackendLimits,
    BackendTelemetry,
    EncodedAdapter,
    LoadableAdapter,
    SequenceChunk,
    UnfitAdapterError,
    kv_features,
)
from services.inference.backends.sampling import ChosenToken, RowSampling

if TYPE_CHECKING:
    from edgelora_native import Engine
    from edgelora_native import RowSampling as NativeRowSampling

_HALF_BYTES = 2
_SCALE_BYTES = 4
_TOLERANCE, _TOLERANCE_INT8 = 0.01, 0.5
"""Every instruction set gives the same bits; keys and values in 8 bits give others."""


class NativeBackend:
    """Implements `base.Backend` over one packed model file."""

    name = "native"
    loads_beside_forward = True

    _engine: Engine
    _vocab_size: int

    def __init__(self, *, num_threads: int, kv_cache_int8: bool = False) -> None:
        """`num_threads`: threads that compute, the engine's own thread among them.

        `kv_cache_int8`: keys and values in 8 bits instead of half precision.
        """
        self._max_threads = self.num_threads = num_threads
        self._is_kv_int8 = kv_cache_int8

    @staticmethod
    def probe() -> str | None:
        """See Backend."""
        return native_core_obstacle() or NativeBackend.setting_obstacle()

    @staticmethod
    def setting_obstacle() -> str | None:
        """What is wrong with EDGELORA_ISA, which the core reads; None when nothing is."""
        if native_core_obstacle() is not None:
            return None
        from edgelora_native import NativeError, instruction_set

        try:
            instruction_set()
        except NativeError as error:
            return str(error)
        return None

    def kv_bytes_per_token(self, directory: Path) -> int:
        """See Backend. With int8 keys and values of each head have a scale beside their bytes."""
        model = BaseModel.load(directory)
        if not self._is_kv_int8:
            return kv_features(model) * _HALF_BYTES
        config = read_object(directory / "config.json")
        num_heads = config.get("num_key_value_heads") or config.get("num_attention_heads")
        if type(num_heads) is not int:
            raise ValueError("config.json says no number of heads: prepare the model again")
        return kv_features(model) + model.num_layers * 2 * num_heads * _SCALE_BYTES

    def load_model(self, directory: Path, limits: BackendLimits) -> BaseModel:
        """See Backend. Also raises ValueError when the packed file is not the one prepared."""
        from edgelora_native import BLOCK_TOKENS, Engine, Limits, NativeError

        if limits.block_size != BLOCK_TOKENS:
            raise ValueError(f"the native back end needs a block size of {BLOCK_TOKENS} tokens")
        model = BaseModel.load(directory)
        model.verify_file(directory, NATIVE_FILE)
        try:
            self._engine = Engine(
                directory / NATIVE_FILE,
                Limits(
                    num_kv_blocks=limits.num_kv_blocks,
                    max_loras=limits.max_loras,
                    max_lora_rank=limits.max_lora_rank,
                    max_step_tokens=limits.max_step_tokens,
                    num_threads=self._max_threads,
                    kv_cache_int8=self._is_kv_int8,
                ),
            )
        except NativeError as error:
            raise ValueError(str(error)) from error
        self._check_model(model)
        self._vocab_size = model.vocab_size
        return model

    def _check_model(self, model: BaseModel) -> None:
        packed = self._engine.description
        is_same = (packed.hidden_size, packed.num_layers) == (model.hidden_size, model.num_layers)
        is_enough = (
            packed.vocab_size >= model.vocab_size
            and packed.max_context_tokens >= model.max_context_tokens
        )
        if not (is_same and is_enough):
            raise ValueError(f"{NATIVE_FILE} is of another model: prepare the model again")

    @property
    def canary_tolerance(self) -> float:
        """See Backend. Registration measures with keys and values in half precision."""
        return _TOLERANCE_INT8 if self._is_kv_int8 else _TOLERANCE

    def load_adapter(self, slot: int, adapter: LoadableAdapter) -> int:
        """See Backend. Factors are kept in 8 bits, their scales in half precision."""
        from edgelora_native import AdapterFactors, NativeError

        try:
            if isinstance(adapter, EncodedAdapter):
                return self._engine.load_encoded(slot, adapter.data)
            factors = [
                AdapterFactors(layer, module, pair.lora_a, pair.lora_b, pair.scaling)
                for (layer, module), pair in adapter.pairs.items()
            ]
            return self._engine.load_adapter(slot, factors)
        except NativeError as error:
            # The slot is free and the engine open: it is the adapter.
            raise UnfitAdapterError(str(error)) from error

    def unload_adapter(self, slot: int, *, keep_memory: bool = False) -> None:
        """See Backend."""
        self._engine.unload_adapter(slot, keep_pages=keep_memory)

    def set_num_threads(self, count: int) -> None:
        """See Backend. Any number gives the same bits."""
        self._engine.set_threads(count)
        self.num_threads = count

    def forward(self, chunks: Sequence[SequenceChunk]) -> NDArray[np.float32]:
        """See Backend. A row's results are the same bits alone and in any company."""
        logits = self._engine.forward(chunks)
        # The packed head may have columns more, to fill its last block.
        return logits[:, : self._vocab_size]

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        """See Backend."""
        # The package has a class of its own with the same fields, and reads nothing but them.
        chosen = self._engine.sample(logits, cast("Sequence[NativeRowSampling]", rows))
        return [
            None if token is None else ChosenToken(token.token_id, token.logprob, token.top)
            for token in chosen
        ]

    def telemetry(self) -> BackendTelemetry:
        """See Backend."""
        description = self._engine.description
        return BackendTelemetry(
            weights_bytes=description.weights_bytes,
            kv_cache_bytes=description.kv_cache_bytes,
            adapter_slots_bytes=description.adapter_slots_bytes,
        )
