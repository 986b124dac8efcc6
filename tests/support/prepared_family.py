"""A tiny base model as the product serves it and as transformers has it, and adapters for both."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel

from edgelora.adapter_format import AdapterWeights, read_adapter
from edgelora.adapter_upload import FILE_NAMES, file_sizes
from edgelora.toolchain.prepare import prepare
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits
from tests.support.backend_streams import BLOCK_SIZE, Stream, give_blocks, random_tokens, use
from tests.support.tiny_families import VOCAB_SIZE, save_directory, tiny_model
from tests.support.wild_adapters import quiet

MAX_RANK = 64
LIMITS = BackendLimits(num_kv_blocks=4, block_size=BLOCK_SIZE, max_loras=1, max_lora_rank=MAX_RANK)
PREFILLED, LENGTH = 24, 32
PROMPT = random_tokens(LENGTH, VOCAB_SIZE)


class PreparedFamily:
    """A base model of one family, as prepared here and as transformers has it."""

    def __init__(self, family: str, root: Path, **changes: Any) -> None:
        """`changes`: of the model's config."""
        self._family = family
        self.model = tiny_model(family, **changes)
        save_directory(self.model, root / "source")
        self.description: BaseModel = prepare(root / "source", root, "m", weights="both")
        self.directory = root / "models/m"
        self._backends: dict[type[Backend], Backend] = {}

    def base_for(self, changes: dict[str, Any]) -> Any:
        """The model of transformers; with changes another one, of the same family."""
        return tiny_model(self._family, **changes) if changes else self.model

    def logits(self, backend_class: type[Any], adapter: AdapterWeights) -> np.ndarray:
        """Logits after a prefill and after every token that follows, in a slot used before."""
        if backend_class not in self._backends:
            self._backends[backend_class] = backend_class(num_threads=1)
            self._backends[backend_class].load_model(self.directory, LIMITS)
        backend = self._backends[backend_class]
        backend.unload_adapter(0)
        backend.load_adapter(0, adapter)
        stream = Stream(PROMPT, use(0))
        give_blocks([stream], LENGTH)
        pieces = [PROMPT[:PREFILLED], *np.split(PROMPT[PREFILLED:], LENGTH - PREFILLED)]
        return np.concatenate([backend.forward([stream.chunk(piece)]) for piece in pieces])


def read(directory: Path, model: BaseModel) -> AdapterWeights:
    """As the command line finds the files and the store reads them."""
    file_sizes(directory)
    config, weights = ((directory / name).read_bytes() for name in FILE_NAMES)
    _, adapter = read_adapter(
        config,
        weights,
        targets=model.targets,
        num_layers=model.num_layers,
        max_rank=MAX_RANK,
    )
    return adapter


@quiet()
def adapted_by_peft(model: Any, directory: Path, is_bare_decoder: bool) -> Any:
    """A copy of a model with the adapter merged into it by PEFT."""
    model = copy.deepcopy(model)
    if is_bare_decoder:
        model.model = PeftModel.from_pretrained(model.model, str(directory)).merge_and_unload()
        return model
    return PeftModel.from_pretrained(model, str(directory)).merge_and_unload()


@torch.inference_mode()
def expected_logits(model: Any) -> np.ndarray:
    """What a transformers model has at the positions of `PreparedFamily.logits`."""
    ids = torch.from_numpy(PROMPT).long()[None]
    return model(ids).logits[0, PREFILLED - 1 :].numpy()
