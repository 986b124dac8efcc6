"""Hugging Face directories of BERTs: what is read of them, and what is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from tokenizers import Tokenizer

from edgelora.toolchain.encoder_inputs import factors
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.model_source import EncoderSource
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.rounding import PlainRounding
from tests.support.adapter_files import safetensors_bytes
from tests.support.tiny_encoder import LAYERS, save_tiny_source, tiny_config, tiny_weights

CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENS = {"cls_token": "[CLS]", "sep_token": {"content": "[SEP]"}, "pad_token": "[PAD]"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    save_tiny_source(directory)
    (directory / "tokenizer_config.json").write_text(json.dumps(TOKENS))
    return directory


@pytest.fixture
def change(source: Path) -> Callable[..., None]:
    """Replaces fields of the configuration; a value `...` removes one."""

    def change(**fields: object) -> None:
        config = {**json.loads((source / CONFIG).read_text()), **fields}
        kept = {name: value for name, value in config.items() if value is not ...}
        (source / CONFIG).write_text(json.dumps(kept))

    return change


def opened(directory: Path) -> EncoderSource:
    source = open_directory(directory)
    assert isinstance(source, EncoderSource)
    return source


def refused(directory: Path, told: str) -> None:
    with pytest.raises(ToolchainError, match=told):
        open_directory(directory)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "deberta-v2", "xlm-roberta", "albert"])
def test_another_encoder_is_refused_by_name(source, change, family):
    change(model_type=family)
    refused(source, f"has model_type '{family}'; supported: .*bert")


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"hidden_act": "relu"}, "hidden_act must be one of gelu, gelu_new"),
        ({"hidden_act": []}, "hidden_act must be one of"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "decodes"),
        ({"num_attention_heads": 5}, "do not fit together"),
        ({"num_attention_heads": 0}, "num_heads is out of range"),
        ({"num_hidden_layers": 2**40}, "num_layers is out of range"),
        ({"hidden_size": "64"}, "hidden_size is out of range"),
        ({"type_vocab_size": True}, "type_vocab_size is out of range"),
        ({"max_position_embeddings": ...}, "lacks 'max_position_embeddings'"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps is not a number"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps is not a number"),
        ({"num_hidden_layers": LAYERS + 1}, "lacks tensor"),
        ({"intermediate_size": 96}, "has shape"),
    ],
)
def test_configurations_that_are_not_served_are_refused(source, change, fields, told):
    change(**fields)
    refused(source, told)


def test_names_of_old_checkpoints_and_the_layers_of_a_task_are_known(source):
    config = tiny_config(vocab_size=opened(source).shape.vocab_size)
    tensors = {}
    for name, values in tiny_weights(config["vocab_size"]).items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        tensors["bert." + old.replace("LayerNorm.bias", "LayerNorm.beta")] = values
    tensors["cls.predictions.bias"] = tensors["classifier.bias"] = np.zeros(3, dtype="<f4")
    tensors["bert.embeddings.position_ids"] = np.arange(4, dtype="<i8")
    before = opened(source)
    (source / WEIGHTS).write_bytes(save(tensors))
    after = opened(source)
    assert after.tensors.keys() == before.tensors.keys()
    assert after.digest != before.digest


def test_a_model_without_a_pooler_is_prepared_without_one(source):
    shape = opened(source).shape
    tensors = tiny_weights(shape.vocab_size)
    kept = {name: values for name, values in tensors.items() if not name.startswith("pooler")}
    (source / WEIGHTS).write_bytes(safetensors_bytes(kept))
    assert shape.has_pooler
    assert not opened(source).shape.has_pooler


@pytest.mark.parametrize(
    "modes, pooling",
    [
        (None, "mean"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "cls"),
    ],
)
def test_the_pooling_of_sentence_transformers_is_read(source, modes, pooling):
    if modes is not None:
        (source / "1_Pooling").mkdir()
        (source / "1_Pooling" / CONFIG).write_text(json.dumps(modes))
    assert opened(source).pooling == pooling


@pytest.mark.parametrize(
    "modes",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {},
    ],
)
def test_another_pooling_is_refused(source, modes):
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / CONFIG).write_text(json.dumps(modes))
    refused(source, "1_Pooling/config.json must name one of")


def test_the_tokenizer_neither_cuts_nor_pads(source, tmp_path):
    model = prepare(source, tmp_path, "m", weights="float32")
    tokenizer = Tokenizer.from_file(str(tmp_path / "models/m/tokenizer.json"))
    assert len(tokenizer.encode("pay the bill").ids) == 5
    assert len(tokenizer.encode("pay the bill " * 10).ids) == 32
    config = json.loads((tmp_path / "models/m/tokenizer_config.json").read_text())
    assert (config["cls_token"], config["sep_token"]) == ("[CLS]", "[SEP]")
    assert (model.family, model.pooling, model.is_encoder) == ("bert", "mean", True)


def test_a_tokenizer_without_its_marks_is_refused(source):
    (source / "tokenizer_config.json").write_text('{"cls_token": "[CLS]", "sep_token": "[END]"}')
    refused(source, "sep_token is none of tokenizer.json")


def test_heads_that_the_core_does_not_serve_are_served_in_fp32(source, change, tmp_path):
    change(num_attention_heads=4)
    with pytest.raises(ToolchainError, match=r"head size is 16.*--weights float32"):
        prepare(source, tmp_path, "m", weights="native")
    assert prepare(source, tmp_path, "m", weights="float32").files.keys() == {WEIGHTS}


def test_an_encoder_takes_no_rounding_of_decoders(source, tmp_path):
    with pytest.raises(ToolchainError, match="leave out --quant"):
        prepare(source, tmp_path, "m", weights="native", rounding=PlainRounding())
    assert not (tmp_path / "models/m").exists()


def test_factors_bring_inputs_halfway_together():
    inputs = np.ones((2, 3, 5), dtype=np.float32)
    inputs[..., 4] = 100.0
    inputs[..., 0] = 0.0
    assert factors(inputs).tolist() == pytest.approx([1e-3**-0.5, 1.0, 1.0, 1.0, 0.1])
