"""What PEFT writes for a classifier of an encoder reads as it computes, for every option served."""

from __future__ import annotations

import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertForSequenceClassification

from edgelora.adapter_format import EncoderAdapter, read_encoder_adapter
from edgelora.adapter_format.rank_cut import cut_adapter
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from tests.support.tiny_encoder import HIDDEN, LAYERS, TARGETS, module_path, save_tiny_source

pytestmark = pytest.mark.integration
TOLERANCE = 1e-4
NO_POOLER = {"exclude_modules": ["pooler.dense"]}
SERVED: dict[str, dict[str, Any]] = {
    "query and value": {"target_modules": ["query", "value"]},
    "by default": {},
    "output.dense": {"target_modules": ["output.dense"]},
    "dense": {"target_modules": ["dense", "key"], **NO_POOLER},
    "all linear": {"target_modules": "all-linear", **NO_POOLER},
    "whole paths": {"target_modules": ["bert.encoder.layer.1.attention.self.key"]},
    "rsLoRA": {"target_modules": ["query", "intermediate.dense"], "use_rslora": True},
    "patterns": {
        "target_modules": ["query", "value", "output.dense"],
        "rank_pattern": {"1.attention.self.query": 2, "output.dense": 8},
        "alpha_pattern": {"value": 3},
    },
    "one layer": {
        "target_modules": ["query"],
        "layers_to_transform": [1],
        "layers_pattern": "layer",
    },
    "fan_in_fan_out": {"target_modules": ["query"], "fan_in_fan_out": True},
    "modules_to_save": {"target_modules": ["query"], "modules_to_save": ["classifier"]},
    "dropout and start": {"lora_dropout": 0.1, "init_lora_weights": "gaussian"},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "pooler": ({"target_modules": ["dense"]}, "pooler"),
    "all linear": ({"target_modules": "all-linear"}, "pooler"),
    "saved pooler": ({"target_modules": ["query"], "modules_to_save": ["pooler"]}, "pooler"),
    "embedding": ({"target_modules": ["word_embeddings"]}, "word_embeddings"),
    "biases": ({"target_modules": ["query"], "bias": "lora_only"}, "bias"),
    "PiSSA": ({"target_modules": ["query"], "init_lora_weights": "pissa"}, "init_lora_weights"),
    "OLoRA": ({"target_modules": ["query"], "init_lora_weights": "olora"}, "init_lora_weights"),
    "expression": ({"target_modules": r".*\.(query|value)"}, "target_modules"),
    "DoRA": ({"target_modules": ["query"], "use_dora": True}, "use_dora"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Any:
    directory = tmp_path_factory.mktemp("bert")
    save_tiny_source(directory)
    return BertForSequenceClassification.from_pretrained(directory, num_labels=5).eval()


def save(source: Any, directory: Path, **options: Any) -> torch.Tensor:
    """Writes an adapter with random factors and classifier; returns PEFT's logits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {"task_type": "SEQ_CLS", "r": 4, "lora_alpha": 6, **options}
        adapted: Any = get_peft_model(deepcopy(source), LoraConfig(**arguments)).eval()
        for name, parameter in adapted.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        adapted.save_pretrained(str(directory))
        return logits(adapted)


@torch.inference_mode()
def logits(model: Any) -> torch.Tensor:
    return model(torch.arange(5, 30)[None]).logits[0]


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


def files(directory: Path) -> tuple[bytes, bytes]:
    names = ("adapter_config.json", "adapter_model.safetensors")
    config, weights = ((directory / name).read_bytes() for name in names)
    return config, weights


@torch.inference_mode()
def merged(source: Any, adapter: EncoderAdapter) -> torch.Tensor:
    """The logits of the model into which what was read was added by hand."""
    model = deepcopy(source)
    for (layer, module), pair in adapter.weights.pairs.items():
        weight = model.bert.get_submodule(module_path(layer, module)).weight
        weight += torch.from_numpy(pair.scaling * pair.lora_b @ pair.lora_a)
    assert adapter.head is not None
    model.classifier.weight.copy_(torch.from_numpy(adapter.head.weight))
    model.classifier.bias.copy_(torch.from_numpy(adapter.head.bias))
    return logits(model)


@pytest.mark.parametrize("kind", SERVED)
def test_options_that_are_served_compute_what_peft_computes_A01(source, tmp_path, kind):
    expected = save(source, tmp_path, **SERVED[kind])
    adapter = read(*files(tmp_path))
    assert (merged(source, adapter) - expected).abs().max() < TOLERANCE
    again = read(adapter.config.canonical_bytes(), files(tmp_path)[1])
    assert again.config == adapter.config


@pytest.mark.parametrize("kind", REFUSED)
def test_options_that_are_not_served_are_refused_by_name(source, tmp_path, kind):
    options, name = REFUSED[kind]
    save(source, tmp_path, **options)
    with pytest.raises((AdapterRejectedError, AdapterIncompatibleError)) as caught:
        read(*files(tmp_path))
    assert name in caught.value.message


def test_version_of_a_lower_rank_keeps_the_classifier(source, tmp_path):
    save(source, tmp_path, target_modules=["query", "output.dense"])
    config, weights = files(tmp_path)
    whole = read(config, weights)
    cut = cut_adapter(config, weights, 2)
    lower = read(cut.config, cut.weights)
    assert lower.weights.max_rank == 2
    assert whole.head is not None
    assert lower.head is not None
    assert np.array_equal(lower.head.weight, whole.head.weight)
    lost = size = 0.0
    for key, pair in whole.weights.pairs.items():
        product = pair.scaling * pair.lora_b @ pair.lora_a
        other = lower.weights.pairs[key]
        lost += float(np.sum((product - other.scaling * other.lora_b @ other.lora_a) ** 2))
        size += float(np.sum(product**2))
    assert (lost / size) ** 0.5 == pytest.approx(cut.relative_error, rel=1e-3)
