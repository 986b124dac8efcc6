"""The native back end: the C++ core in services/inference/native, through its Python package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.weights import AdapterWeights
from services.chassis.base_model import NATIVE_FILE, BaseModel
from services.inference.backends.base import UnfitAdapterError
from services.inference.backends.native_backend import NativeBackend
from services.inference.encoder.backend import EncoderLimits, EncoderText

if TYPE_CHECKING:
    from edgelora_native.encoder import Encoder


class NativeEncoderBackend:
    """Implements `backend.EncoderBackend` over one packed encoder file."""

    name = "native"

    _encoder: Encoder

    def __init__(self, *, num_threads: int) -> None:
        """`num_threads`: threads that compute, the engine's own thread among them."""
        self._num_threads = num_threads

    @property
    def weights_bytes(self) -> int:
        """See EncoderBackend."""
        return self._encoder.description.weights_bytes

    @property
    def adapter_slots_bytes(self) -> int:
        """See EncoderBackend."""
        return self._encoder.description.adapter_slots_bytes

    @staticmethod
    def probe() -> str | None:
        """See EncoderBackend."""
        return NativeBackend.probe()

    def load_model(self, directory: Path, limits: EncoderLimits) -> BaseModel:
        """See EncoderBackend. Also raises ValueError when the packed file is not the one
        prepared."""
        from edgelora_native import NativeError
        from edgelora_native.encoder import Encoder
        from edgelora_native.encoder import EncoderLimits as NativeLimits

        model = BaseModel.load(directory)
        if not model.is_encoder:
            raise ValueError(f"{model.name} is no encoder: prepare one")
        model.verify_file(directory, NATIVE_FILE)
        try:
            self._encoder = Encoder(
                directory / NATIVE_FILE,
                NativeLimits(
                    max_loras=limits.max_loras,
                    max_lora_rank=limits.max_lora_rank,
                    max_step_tokens=limits.max_step_tokens,
                    num_threads=self._num_threads,
                ),
            )
        except NativeError as error:
            raise ValueError(str(error)) from error
        packed = self._encoder.description
        for name in ("vocab_size", "hidden_size", "num_layers", "max_context_tokens"):
            if getattr(packed, name) != getattr(model, name):
                raise ValueError(f"{NATIVE_FILE} is of another model: prepare the model again")
        return model

    def load_adapter(self, slot: int, weights: AdapterWeights) -> int:
        """See EncoderBackend. Factors are kept in 8 bits, their scales in half precision."""
        from edgelora_native import AdapterFactors, NativeError

        factors = [
            AdapterFactors(layer, module, pair.lora_a, pair.lora_b, pair.scaling)
            for (layer, module), pair in weights.pairs.items()
        ]
        try:
            return self._encoder.load_lora(slot, factors)
        except NativeError as error:
            # The slot is free and the encoder open: it is the adapter.
            raise UnfitAdapterError(str(error)) from error

    def unload_adapter(self, slot: int) -> None:
        """See EncoderBackend."""
        self._encoder.unload_lora(slot)

    def encode(self, texts: Sequence[EncoderText]) -> NDArray[np.float32]:
        """See EncoderBackend. A text's vector is the same bits alone and in any company."""
        return self._encoder.encode(
            [text.token_ids for text in texts],
            [text.adapters for text in texts],
            [text.pooling for text in texts],
        )
