"""A very small decoder with one PEFT adapter of every kind, loaded into the torch back end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from edgelora.adapter_format import AdapterWeights
from services.chassis.base_model import BaseModel
from services.inference.backends.base import BackendLimits
from services.inference.backends.torch_backend import TorchBackend
from tests.support.backend_streams import BLOCK_SIZE
from tests.support.peft_adapters import KINDS, read, save_adapters, save_tiny_decoder

LIMITS = BackendLimits(num_kv_blocks=128, block_size=BLOCK_SIZE, max_loras=12, max_lora_rank=64)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Tiny:
    """The model's directory and its adapters, in the order of KINDS: adapter i goes to slot i."""

    directory: Path
    model: BaseModel
    adapters: dict[str, Path]

    def weights(self, kind: str) -> AdapterWeights:
        """The adapter of a kind as the product reads it."""
        return read(self.adapters[kind], self.model)

    def slot(self, kind: str) -> int:
        """Where `backend` holds the adapter of a kind."""
        return list(self.adapters).index(kind)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    directory = tmp_path_factory.mktemp("tiny")
    model = save_tiny_decoder(directory / "model")
    paths = save_adapters(directory / "model", directory / "adapters", list(KINDS.values()))
    return Tiny(directory / "model", model, dict(zip(KINDS, paths, strict=True)))


def load_backend(directory: Path, limits: BackendLimits = LIMITS) -> TorchBackend:
    """A fresh back end with the model and no adapters."""
    backend = TorchBackend(num_threads=1)
    backend.load_model(directory, limits)
    return backend


@pytest.fixture
def backend(tiny: Tiny) -> TorchBackend:
    """A fresh back end that holds every adapter."""
    backend = load_backend(tiny.directory)
    for slot, kind in enumerate(tiny.adapters):
        backend.load_adapter(slot, tiny.weights(kind))
    return backend
