"""Classifiers that PEFT writes, in our two encoders; and what we export of them, in PEFT.

The torch back end is held to transformers + PEFT within 1e-4 of logits that span about 5, in
float32. The native core keeps weights and factors in 8 bit: it is held, in norm, within 5 % of the
answers and 5 % of what the adapter changes, which for factors as large as these is more.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

from edgelora.adapter_format import AdapterWeights, EncoderAdapter, read_encoder_adapter
from edgelora.adapter_format.rank_cut import cut_adapter
from edgelora.toolchain.adapter_export import export_peft, read_local_adapter
from services.chassis.base_model import NATIVE_FILE
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderBackend, EncoderLimits, EncoderText
from services.inference.encoder.classification import head_logits
from services.inference.encoder.native_backend import NativeEncoderBackend
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.integration.parity.test_encoder_peft import SERVED, files, save
from tests.support.tiny_encoder import HIDDEN, LAYERS, TARGETS, prepare_tiny_encoder

pytestmark = pytest.mark.integration

TORCH_TOLERANCE = 1e-4
NATIVE_TOLERANCE = 0.05
WEIGHTS = "adapter_model.safetensors"
TEXTS = np.random.default_rng(9).integers(5, 60, (12, 20)).astype(np.int32)
LIMITS = EncoderLimits(max_loras=1, max_lora_rank=64)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_tiny_encoder(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def source(tiny: Path) -> Any:
    directory = tiny.parents[1] / "source"
    return BertForSequenceClassification.from_pretrained(directory, num_labels=5).eval()


@pytest.fixture(scope="module")
def torch_encoder(tiny: Path) -> EncoderBackend:
    backend = TorchEncoderBackend(num_threads=1)
    backend.load_model(tiny, LIMITS)
    return backend


@pytest.fixture(scope="module")
def native_encoder(tiny: Path) -> EncoderBackend:
    if not (tiny / NATIVE_FILE).is_file():
        pytest.skip(NativeEncoderBackend.probe() or "no packed file")
    backend = NativeEncoderBackend(num_threads=1)
    backend.load_model(tiny, LIMITS)
    return backend


def read(config: bytes, weights: bytes) -> EncoderAdapter:
    return read_encoder_adapter(
        config,
        weights,
        None,
        targets=TARGETS,
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        max_rank=64,
    )


def served(backend: EncoderBackend, adapter: EncoderAdapter) -> np.ndarray:
    """What the encoder answers to every text, in a slot used before."""
    assert adapter.head is not None
    backend.unload_adapter(0)
    uses = ()
    if adapter.weights.pairs:
        backend.load_adapter(0, adapter.weights)
        uses = (SlotWeight(0, 1.0),)
    texts = [
        EncoderText(token_ids=one, adapters=uses, pooling=adapter.head.pooling) for one in TEXTS
    ]
    return np.stack([head_logits(adapter.head, vector) for vector in backend.encode(texts)])


def peft_logits(source: Any, directory: Path) -> np.ndarray:
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        adapted = PeftModel.from_pretrained(deepcopy(source), str(directory)).eval()
        return adapted(torch.from_numpy(TEXTS).long()).logits.numpy()


def cast(dtype: torch.dtype) -> Callable[[Path], None]:
    def then(directory: Path) -> None:
        tensors = load_file(directory / WEIGHTS)
        save_file({n: t.to(dtype) for n, t in tensors.items()}, directory / WEIGHTS)

    return then


def probe(directory: Path) -> None:
    """Leaves the classifier alone, as training a linear probe does."""
    tensors = load_file(directory / WEIGHTS)
    save_file({n: t for n, t in tensors.items() if "lora_" not in n}, directory / WEIGHTS)
    config = (directory / "adapter_config.json").read_text()
    document = {**json.loads(config), "target_modules": "dummy-target-modules"}
    (directory / "adapter_config.json").write_text(json.dumps(document))


def lower_rank(directory: Path) -> None:
    cut = cut_adapter(*files(directory), 2)
    (directory / "adapter_config.json").write_bytes(cut.config)
    (directory / WEIGHTS).write_bytes(cut.weights)


THEN: dict[str, Callable[[Path], None]] = {
    "float16": cast(torch.float16),
    "bfloat16": cast(torch.bfloat16),
    "lower rank": lower_rank,
    "probe": probe,
}


@pytest.mark.parametrize("kind", [*SERVED, *THEN])
def test_peft_s_classifier_answers_the_same_here_and_exported_A01(
    kind: str,
    source: Any,
    tiny: Path,
    torch_encoder: EncoderBackend,
    native_encoder: EncoderBackend,
    tmp_path: Path,
) -> None:
    adapter_directory = tmp_path / "adapter"
    torch.manual_seed(17)
    save(source, adapter_directory, **SERVED.get(kind, {"target_modules": ["query"]}))
    if kind in THEN:
        THEN[kind](adapter_directory)
    expected = peft_logits(source, adapter_directory)
    adapter = read(*files(adapter_directory))
    assert np.abs(served(torch_encoder, adapter) - expected).max() < TORCH_TOLERANCE
    native = served(native_encoder, adapter)
    plain = served(torch_encoder, replace(adapter, weights=AdapterWeights({})))
    largest = np.linalg.norm(expected) + np.linalg.norm(expected - plain)
    assert np.linalg.norm(native - expected) < NATIVE_TOLERANCE * largest

    export_peft(read_local_adapter(adapter_directory, tiny), tmp_path / "exported")
    assert np.abs(peft_logits(source, tmp_path / "exported") - expected).max() < 1e-5
