"""The real model with eight adapters, in the torch back end and in transformers + PEFT."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from services.chassis.base_model import BaseModel
from services.inference.backends.base import BackendLimits
from services.inference.backends.torch_backend import TorchBackend
from tests.support.backend_streams import BLOCK_SIZE
from tests.support.peft_adapters import KINDS, PeftReference, read, save_adapters
from tests.support.prepared_model import prepared_model


@dataclass(frozen=True)
class Real:
    """The model, its adapters by kind, and the back end that holds them in that order."""

    directory: Path
    model: BaseModel
    adapters: dict[str, Path]
    backend: TorchBackend
    reference: PeftReference

    def slot(self, kind: str) -> int:
        """Where the back end holds the adapter of a kind."""
        return list(self.adapters).index(kind)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    before = torch.get_num_threads()
    directory = prepared_model()
    model = BaseModel.load(directory)
    paths = save_adapters(
        directory, tmp_path_factory.mktemp("adapters"), list(KINDS.values()), std=0.02
    )
    adapters = dict(zip(KINDS, paths, strict=True))
    backend = TorchBackend(num_threads=1)
    limits = BackendLimits(
        num_kv_blocks=96, block_size=BLOCK_SIZE, max_loras=len(adapters), max_lora_rank=64
    )
    backend.load_model(directory, limits)
    for slot, path in enumerate(paths):
        backend.load_adapter(slot, read(path, model))
    yield Real(directory, model, adapters, backend, PeftReference(directory, adapters))
    del backend
    gc.collect()
    torch.set_num_threads(before)
