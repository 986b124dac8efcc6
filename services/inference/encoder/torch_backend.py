"""The torch back end of the encoder: the readable reference, and what serves without the core.

Imported by `choice.py` alone, so that nobody else has to load torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# See services/inference/backends/torch_factory.py.
os.environ.setdefault("GOMP_SPINCOUNT", "4000")

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgelora.adapter_format.weights import AdapterWeights
from services.chassis.base_model import FLOAT32_FILE, BaseModel
from services.inference.backends.base import UnfitAdapterError
from services.inference.encoder.backend import EncoderLimits, EncoderText
from services.inference.encoder.torch_encoder import TorchEncoder

_Factors = dict[tuple[int, str], tuple[Tensor, Tensor]]
"""A^T [in_features, rank] and B^T [rank, out_features], the scaling in the latter."""


class TorchEncoderBackend:
    """Implements `backend.EncoderBackend` in float32."""

    name = "torch"

    def __init__(self, *, num_threads: int) -> None:
        self._num_threads = num_threads
        self._slots: dict[int, _Factors] = {}

    @staticmethod
    def probe() -> str | None:
        """See EncoderBackend. Whoever got so far has torch."""
        return None

    @property
    def weights_bytes(self) -> int:
        """See EncoderBackend."""
        return self._encoder.num_bytes

    @property
    def adapter_slots_bytes(self) -> int:
        """See EncoderBackend: what all slots full would take; they are filled as they are used."""
        features = sum(map(sum, self._model.targets.values())) * self._model.num_layers
        return self._limits.max_loras * self._limits.max_lora_rank * features * 4

    @torch.inference_mode()
    def load_model(self, directory: Path, limits: EncoderLimits) -> BaseModel:
        """See EncoderBackend."""
        torch.set_num_threads(self._num_threads)
        model = BaseModel.load(directory)
        model.verify_file(directory, FLOAT32_FILE)
        self._encoder = TorchEncoder(directory, model.num_layers)
        self._model = model
        self._limits = limits
        return model

    @torch.inference_mode()
    def load_adapter(self, slot: int, weights: AdapterWeights) -> int:
        """See EncoderBackend."""
        factors: _Factors = {}
        for (layer, module), pair in weights.pairs.items():
            self._check_fit(layer, module, pair.lora_a.shape, pair.lora_b.shape)
            b = torch.from_numpy(pair.lora_b).t() * pair.scaling
            factors[layer, module] = (torch.from_numpy(pair.lora_a).t().contiguous(), b)
        self._slots[slot] = factors
        return sum(tensor.numel() * 4 for pair in factors.values() for tensor in pair)

    def unload_adapter(self, slot: int) -> None:
        """See EncoderBackend."""
        self._slots.pop(slot, None)

    @torch.inference_mode()
    def encode(self, texts: Sequence[EncoderText]) -> NDArray[np.float32]:
        """See EncoderBackend. A text's numbers are the same to rounding in any company."""
        lengths = [len(text.token_ids) for text in texts]
        token_ids = torch.from_numpy(np.concatenate([text.token_ids for text in texts])).long()
        x = self._encoder.run(token_ids, lengths, _StepAdaptation(self._slots, texts))
        pooled = [
            self._pool(text, rows)
            for text, rows in zip(texts, torch.split(x, lengths), strict=True)
        ]
        vectors: NDArray[np.float32] = torch.stack(pooled).numpy()
        return vectors

    def _pool(self, text: EncoderText, rows: Tensor) -> Tensor:
        match text.pooling:
            case "mean":
                return rows.mean(dim=0)
            case "cls":
                return rows[0]
            case "pooler":
                if not self._encoder.has_pooler:
                    raise UnfitAdapterError("the encoder has no pooler: train with pooling mean")
                return self._encoder.pool_bert(rows[:1])[0]

    def _check_fit(self, layer: int, module: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        name, cap = f"layer {layer} {module}", self._limits.max_lora_rank
        if module not in self._model.targets or not 0 <= layer < self._model.num_layers:
            raise UnfitAdapterError(f"{name} does not exist in {self._model.name}")
        outputs, inputs = self._model.targets[module]
        if not 1 <= a[0] <= cap:
            raise UnfitAdapterError(f"{name} has rank {a[0]}, the slots hold 1 to {cap}")
        if a != (a[0], inputs) or b != (outputs, a[0]):
            raise UnfitAdapterError(f"{name} does not have the shapes of {self._model.name}")


class _StepAdaptation:
    """Adds to each text's rows what its own adapters make of them, and touches no other row."""

    def __init__(self, slots: dict[int, _Factors], texts: Sequence[EncoderText]) -> None:
        ends = np.cumsum([len(text.token_ids) for text in texts]).tolist()
        self._uses = [
            (slice(end - len(text.token_ids), end), slots[use.slot], use.weight)
            for end, text in zip(ends, texts, strict=True)
            for use in text.adapters
        ]

    def add(self, layer: int, module: str, y: Tensor, x: Tensor) -> None:
        """See Adaptation."""
        for rows, factors, weight in self._uses:
            if (layer, module) in factors:
                a, b = factors[layer, module]
                y[rows] += weight * (x[rows] @ a @ b)
