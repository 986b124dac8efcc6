"""Adapters of an encoder: every tensor is used, or the adapter is refused with the reason."""

import json

import numpy as np
import pytest

from edgelora.adapter_format import (
    adapter_digest,
    parse_adapter_config,
    read_encoder_adapter,
    recognise,
)
from edgelora.adapter_format.architecture import DECODER, ENCODER
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from tests.support.adapter_files import config_bytes, good_adapter, safetensors_bytes
from tests.support.tiny_encoder import (
    HIDDEN,
    LAYERS,
    TARGETS,
    encoder_config,
    encoder_tensors,
    head_bytes,
)

LABELS = ("pay", "move", "alarm")
CLASSIFIER = "base_model.model.classifier"
QUERY = "base_model.model.encoder.layer.0.attention.self.query"


def classifier(modules=("query", "value"), **changes):
    return encoder_tensors(modules, num_labels=3, **changes)


def read(config=None, named=None, head=None, *, max_rank=64):
    return read_encoder_adapter(
        encoder_config() if config is None else config,
        safetensors_bytes(classifier() if named is None else named),
        head,
        targets=TARGETS,
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        max_rank=max_rank,
    )


def refusal(*args, error=AdapterRejectedError, **more):
    with pytest.raises(error) as caught:
        read(*args, **more)
    return caught.value


def with_bert(named):
    """As PEFT writes it for a model with a classifier of its own."""
    return {name.replace("model.encoder", "model.bert.encoder"): t for name, t in named.items()}


def spoiled(**changes):
    """A classifier's tensors; a change to None leaves one out."""
    named = classifier() | changes
    return {name: tensor for name, tensor in named.items() if tensor is not None}


@pytest.mark.parametrize("rename", [lambda named: named, with_bert])
def test_classifier_is_read_with_its_head(rename):
    named = rename(classifier())
    adapter = read(named=named, head=head_bytes(LABELS))
    assert set(adapter.weights.pairs) == {(i, m) for i in (0, 1) for m in ("query", "value")}
    assert adapter.head.labels == LABELS
    assert (adapter.head.pooling, adapter.head.normalise) == ("mean", True)
    assert np.array_equal(adapter.head.weight, named[f"{CLASSIFIER}.weight"])
    assert np.array_equal(adapter.head.bias, named[f"{CLASSIFIER}.bias"])
    assert adapter.num_tensors == len(named)


def test_classifier_without_a_head_file_is_what_transformers_would_make_of_it():
    head = read().head
    assert head.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert (head.pooling, head.normalise, head.out_of_scope) == ("pooler", False, None)


def test_classifier_alone_needs_no_factor_but_a_target_does():
    named = encoder_tensors((), num_labels=3)
    adapter = read(encoder_config(()), named, head_bytes(LABELS))
    assert (adapter.weights.pairs, adapter.weights.max_rank) == ({}, 0)
    assert "lacks" in refusal(encoder_config(("query",)), named).message
    config = encoder_config((), task_type="FEATURE_EXTRACTION", modules_to_save=None)
    assert refusal(config, named).field == "config.target_modules"


def test_adapter_without_a_classifier_changes_the_embeddings():
    config = encoder_config(task_type="FEATURE_EXTRACTION", modules_to_save=None)
    assert read(config, encoder_tensors()).head is None
    assert refusal(config, encoder_tensors(), head_bytes(LABELS)).field == "head"
    assert "does not save one" in refusal(config, classifier()).message
    assert "lacks the classifier" in refusal(named=encoder_tensors()).message


@pytest.mark.parametrize(
    ("targets", "modules"),
    [
        (["output.dense"], ("attention.output.dense", "output.dense")),
        (["attention.output.dense"], ("attention.output.dense",)),
        (["dense"], ("attention.output.dense", "intermediate.dense", "output.dense")),
        (["bert.encoder.layer.0.attention.self.key"], None),
        ("all-linear", tuple(TARGETS)),
    ],
)
def test_target_means_every_path_that_ends_with_it(targets, modules):
    named = with_bert(classifier(("key",) if modules is None else modules))
    if modules is None:
        named = {name: tensor for name, tensor in named.items() if ".layer.1." not in name}
    found = read(encoder_config(target_modules=targets), named).weights.pairs
    assert {module for _, module in found} == set(modules or ("key",))
    fewer = {name: t for name, t in named.items() if "layer.0" not in name}
    assert "lacks" in refusal(encoder_config(target_modules=targets), fewer).message


def test_layers_patterns_and_scalings_are_those_of_peft_A01():
    named = {name: t for name, t in classifier(("query",)).items() if ".layer.0." not in name}
    config = encoder_config(
        ("query",),
        r=16,
        use_rslora=True,
        lora_alpha=32,
        rank_pattern={"1.attention.self.query": 4},
        layers_to_transform=[1],
        layers_pattern="layer",
    )
    pairs = read(config, named).weights.pairs
    assert {key: pair.scaling for key, pair in pairs.items()} == {(1, "query"): 16.0}
    config = encoder_config(("query",), layers_to_transform=[1], layers_pattern="layers")
    assert refusal(config, named).field == "config.layers_pattern"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"r": 600}, "config.r"),
        ({"rank_pattern": {"key": 128}}, "config.rank_pattern"),
        ({"r": 0}, "config.r"),
        ({"bias": "lora_only"}, "config.bias"),
        ({"use_dora": True}, "config.use_dora"),
        ({"init_lora_weights": "pissa"}, "config.init_lora_weights"),
        ({"modules_to_save": ["classifier", "pooler"]}, "config.modules_to_save"),
        ({"modules_to_save": "classifier"}, "config.modules_to_save"),
        ({"target_modules": ".*query"}, "config.target_modules"),
        ({"target_modules": None, "modules_to_save": None, "task_type": None}, "config.target"),
        ({"task_type": "TOKEN_CLS"}, "config.task_type"),
        ({"auto_mapping": {"base_model_class": "os"}}, "config.auto_mapping"),
        ({"lora_alpha": ...}, "config.lora_alpha"),
        ({"brand_new_option": {"x": 1}}, "config"),
    ],
)
def test_config_that_can_not_be_served_is_refused_by_name_A03_A05_A07_A11_A13_A21(changes, field):
    assert refusal(encoder_config(**changes)).field.startswith(field)


@pytest.mark.parametrize("target", ["c_attn", "pooler.dense", "word_embeddings", "q_proj"])
def test_target_the_encoder_does_not_have_is_refused_with_those_it_has_A20(target):
    config = encoder_config(("query", target))
    error = refusal(config, error=AdapterIncompatibleError)
    assert target in error.message
    assert "attention.output.dense" in error.message
    assert ("Conv1D" in error.message) == (target == "c_attn")


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("embeddings.word_embeddings.lora_embedding_A", (4, 50), "embedding"),
        ("encoder.layer.0.attention.self.key.lora_A.weight", (4, HIDDEN, 1), "convolution"),
        ("conv.lora_B.weight", (4, HIDDEN, 3, 3), "convolution"),
        ("transformer.h.0.attn.c_attn.lora_A.weight", (4, HIDDEN), "Conv1D"),
        ("bert.pooler.dense.lora_A.weight", (4, HIDDEN), "pooler"),
        ("bert.pooler.dense.weight", (HIDDEN, HIDDEN), "bert.pooler.dense.weight"),
        ("classifier.original_module.weight", (3, HIDDEN), "save_pretrained"),
        ("classifier.dense.weight", (HIDDEN, HIDDEN), "classifier.dense.weight"),
        ("encoder.layer.0.weighted.lora_A.weight", (4, HIDDEN), "weighted"),
        ("score.weight", (3, HIDDEN), "twice"),
        ("classifier.modules_to_save.default.weight", (3, HIDDEN), "twice"),
    ],
)
def test_tensor_that_nothing_would_use_is_refused_by_name_A05_A10(name, shape, reason):
    stray = {f"base_model.model.{name}": np.ones(shape, "<f4")}
    with pytest.raises((AdapterRejectedError, AdapterIncompatibleError)) as caught:
        read(named=classifier() | stray)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({f"{QUERY}.lora_A.weight": np.full((4, HIDDEN), np.nan, "<f4")}, "NaN"),
        ({f"{QUERY}.lora_B.weight": np.full((HIDDEN, 4), np.inf, "<f4")}, "infinite"),
        ({f"{QUERY}.lora_B.weight": np.full((HIDDEN, 4), 3e38, "<f4")}, "overflow"),
        ({f"{QUERY}.lora_B.weight": None}, "lora_B is missing"),
        ({f"{CLASSIFIER}.weight": np.full((3, HIDDEN), np.nan, "<f4")}, "classifier.weight"),
        ({f"{CLASSIFIER}.weight": np.zeros((3, HIDDEN), "<f4")}, "all zeros"),
        ({f"{CLASSIFIER}.bias": np.full(3, np.inf, "<f4")}, "classifier.bias"),
        ({f"{CLASSIFIER}.weight": None}, "lacks the classifier"),
    ],
)
def test_values_are_whole_and_finite_A15(changes, reason):
    assert reason in refusal(named=spoiled(**changes)).message


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({f"{QUERY}.lora_A.weight": (4, HIDDEN + 1)}, "4x65"),
        ({f"{CLASSIFIER}.weight": (3, HIDDEN + 1)}, "3x65"),
        ({f"{CLASSIFIER}.weight": (3,)}, "shape 3,"),
        ({f"{CLASSIFIER}.bias": (4,)}, "shape 4,"),
        ({QUERY.replace("0", "2") + ".lora_A.weight": (4, HIDDEN)}, "beyond the 2 layers"),
    ],
)
def test_shape_of_another_base_is_refused_A06(changes, found):
    named = spoiled(**{name: np.ones(shape, "<f4") for name, shape in changes.items()})
    assert found in refusal(named=named, error=AdapterIncompatibleError).message


def test_labels_are_as_many_as_the_classifier_has_outputs():
    error = refusal(head=head_bytes(LABELS[:2]))
    assert error.field == "head.labels"
    one = {f"{CLASSIFIER}.weight": np.ones((1, HIDDEN), "<f4"), f"{CLASSIFIER}.bias": None}
    assert "1 labels" in refusal(named=spoiled(**one)).message


def test_factors_that_change_nothing_are_refused_beside_a_classifier_too():
    named = {
        name: np.zeros_like(tensor) if "lora_B" in name else tensor
        for name, tensor in classifier().items()
    }
    assert "change nothing" in refusal(named=named).message


@pytest.mark.parametrize("cut", [0, 7, 8, 100, -1])
def test_cut_file_is_refused_A16(cut):
    data = safetensors_bytes(classifier())
    with pytest.raises(AdapterRejectedError):
        read_encoder_adapter(
            encoder_config(),
            data[:cut],
            None,
            targets=TARGETS,
            num_layers=LAYERS,
            hidden_size=HIDDEN,
            max_rank=64,
        )


def test_digest_covers_config_weights_and_head_and_survives_storage():
    weights = safetensors_bytes(classifier())
    adapters = [read(head=head) for head in (None, head_bytes(LABELS), head_bytes(LABELS[::-1]))]
    digests = {adapter_digest(each.config, weights, each.head_settings) for each in adapters}
    assert len(digests) == 3
    stored = read(
        adapters[1].config.canonical_bytes(), head=adapters[1].head_settings.canonical_bytes()
    )
    assert adapter_digest(stored.config, weights, stored.head_settings) in digests
    assert stored.config == adapters[1].config
    assert stored.config.saves_classifier


def test_digest_of_a_decoders_adapter_is_what_it_was():
    files = good_adapter()
    config = parse_adapter_config(files.config, max_rank=64)
    document = json.loads(config.canonical_bytes())
    assert "modules_to_save" not in document
    assert adapter_digest(config, b"w") == (
        "sha256:b805f15fe135a32af9fd1cf1605f9b3884dcaf202115f625ff2553813afbaa01"
    )


@pytest.mark.parametrize(
    ("config", "named", "expected"),
    [
        (encoder_config(), classifier(), ENCODER),
        (encoder_config(()), encoder_tensors((), num_labels=3), ENCODER),
        (encoder_config(task_type=None), with_bert(encoder_tensors()), ENCODER),
        (config_bytes(task_type="SEQ_CLS"), None, DECODER),
        (config_bytes(), {"stray": np.ones(1, "<f4")}, DECODER),
        (encoder_config(), {"stray": np.ones(1, "<f4")}, ENCODER),
        (b"{}", {"stray": np.ones(1, "<f4")}, None),
        (b"\xff", {"stray": np.ones(1, "<f4")}, None),
    ],
)
def test_names_of_the_tensors_tell_which_base_an_adapter_is_for(config, named, expected):
    weights = good_adapter().weights if named is None else safetensors_bytes(named)
    assert recognise(config, weights) is expected
    assert recognise(encoder_config(), weights[:5]) is ENCODER
