"""Lower-rank versions in PEFT: what it reads is the best cut, at the scaling the adapter had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgelora.adapter_format import AdapterWeights, LoraPair, read_tensors
from edgelora.adapter_format.rank_cut import cut_adapter
from edgelora.adapter_format.tensor_file import write_tensors
from services.chassis.base_model import BaseModel
from tests.support.backend_streams import random_tokens
from tests.support.peft_adapters import (
    KINDS,
    merged_logits,
    peft_logits,
    read,
    save_adapters,
    save_tiny_decoder,
)

pytestmark = pytest.mark.integration
TOLERANCE = 1e-4
PROMPT = random_tokens(40, 256)


@dataclass(frozen=True)
class Tiny:
    """A very small decoder with an adapter of every kind."""

    directory: Path
    model: BaseModel
    adapters: dict[str, Path]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Tiny:
    directory = tmp_path_factory.mktemp("tiny")
    model = save_tiny_decoder(directory)
    paths = save_adapters(directory, tmp_path_factory.mktemp("adapters"), list(KINDS.values()))
    return Tiny(directory, model, dict(zip(KINDS, paths, strict=True)))


def write_cut(source: Path, weights: bytes, rank: int, target: Path) -> Path:
    cut = cut_adapter((source / "adapter_config.json").read_bytes(), weights, rank)
    target.mkdir()
    (target / "adapter_config.json").write_bytes(cut.config)
    (target / "adapter_model.safetensors").write_bytes(cut.weights)
    return target


def best(weights: AdapterWeights, rank: int) -> AdapterWeights:
    """The nearest updates of a rank, from the SVD of the whole matrices."""
    pairs = {}
    for key, pair in weights.pairs.items():
        product = pair.scaling * pair.lora_b.astype(np.float64) @ pair.lora_a
        u, s, v = np.linalg.svd(product, full_matrices=False)
        factors = v[:rank].astype(np.float32), (u[:, :rank] * s[:rank]).astype(np.float32)
        pairs[key] = LoraPair(*factors, 1.0)
    return AdapterWeights(pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_peft_reads_the_best_cut_of_every_kind_A01(tiny, tmp_path, kind):
    source = tiny.adapters[kind]
    weights = read(source, tiny.model)
    rank = weights.max_rank // 2
    data = (source / "adapter_model.safetensors").read_bytes()
    cut = write_cut(source, data, rank, tmp_path / "cut")
    actual = peft_logits(tiny.directory, cut, PROMPT)
    expected = merged_logits(tiny.directory, [(best(weights, rank), 1.0)], PROMPT)
    assert np.abs(actual - expected).max() < TOLERANCE
    whole = peft_logits(tiny.directory, source, PROMPT)
    assert np.abs(actual - whole).max() > 100 * TOLERANCE, "the cut is one"


@pytest.mark.parametrize("kind", KINDS)
def test_cut_to_the_rank_an_update_really_has_changes_nothing_in_peft(tiny, tmp_path, kind):
    source = tiny.adapters[kind]
    rank = read(source, tiny.model).max_rank // 2
    tensors = read_tensors((source / "adapter_model.safetensors").read_bytes())
    thin = {name: np.array(values) for name, values in tensors.items()}
    for name, values in thin.items():
        if ".lora_B." in name:
            values[:, rank:] = 0
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "adapter_config.json").write_bytes((source / "adapter_config.json").read_bytes())
    (plain / "adapter_model.safetensors").write_bytes(write_tensors(thin))
    cut = write_cut(source, write_tensors(thin), rank, tmp_path / "cut")
    expected = peft_logits(tiny.directory, plain, PROMPT)
    assert np.abs(peft_logits(tiny.directory, cut, PROMPT) - expected).max() < TOLERANCE
    assert np.abs(peft_logits(tiny.directory, None, PROMPT) - expected).max() > 100 * TOLERANCE
