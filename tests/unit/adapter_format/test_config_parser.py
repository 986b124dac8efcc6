"""Strict reading of adapter_config.json."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.adapter_format import AdapterConfig, parse_adapter_config
from edgelora.adapter_format.architecture import ENCODER
from edgelora.errors import AdapterRejectedError
from tests.support.adapter_files import config_bytes, config_document

NOWHERE = "model.layers.0.self_attn.q_proj"


def parse(**changes) -> AdapterConfig:
    return parse_adapter_config(config_bytes(**changes), max_rank=64)


def refusal(**changes) -> AdapterRejectedError:
    with pytest.raises(AdapterRejectedError) as caught:
        parse(**changes)
    return caught.value


def test_plain_config_is_read():
    config = parse(lora_dropout=0.05, inference_mode=True)
    assert (config.rank, config.alpha) == (4, 8.0)
    assert config.target_modules == {"q_proj", "v_proj"}
    assert config.scaling_of(NOWHERE) == 2.0


def test_rank_stabilised_scaling_A01():
    config = parse(r=16, lora_alpha=32, use_rslora=True)
    assert config.scaling_of(NOWHERE) == 8.0


def test_scaling_uses_both_patterns():
    config = parse(
        rank_pattern={"layers.0.self_attn.q_proj": 16},
        alpha_pattern={"q_proj": 32},
        use_rslora=True,
    )
    assert config.scaling_of(NOWHERE) == 32 / math.sqrt(16)
    assert config.scaling_of("model.layers.1.self_attn.q_proj") == 32 / 2
    assert config.scaling_of("model.layers.1.self_attn.v_proj") == 8 / 2


def test_first_matching_pattern_in_file_order_wins():
    first = parse(rank_pattern={"q_proj": 2, "0.self_attn.q_proj": 3})
    second = parse(rank_pattern={"0.self_attn.q_proj": 3, "q_proj": 2})
    assert (first.rank_of(NOWHERE), second.rank_of(NOWHERE)) == (2, 3)
    assert first.canonical_bytes() != second.canonical_bytes()


def test_caret_key_has_to_equal_the_whole_path():
    config = parse(rank_pattern={"^" + NOWHERE: 7, "^self_attn.v_proj": 9})
    assert config.rank_of(NOWHERE) == 7
    assert config.rank_of("model.layers.0.self_attn.v_proj") == 4


def test_pattern_key_is_no_bare_suffix():
    # "proj" is a suffix of the text, but not a dotted tail of the path.
    assert parse(rank_pattern={"proj": 2}).rank_of(NOWHERE) == 4


def test_whole_path_is_adapted_in_any_layer():
    config = parse(target_modules=[NOWHERE, "v_proj"], layers_to_transform=[1])
    assert config.adapts(NOWHERE, 0)
    assert not config.adapts("model.layers.0.self_attn.v_proj", 0)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("target_modules", {"target_modules": "q_proj"}),
        ("exclude_modules", {"exclude_modules": "q_proj"}),
        ("layers_to_transform", {"target_modules": "all-linear", "layers_to_transform": [1]}),
        ("layers_pattern", {"layers_pattern": "layers"}),
    ],
)
def test_what_peft_would_read_otherwise_is_refused(key, changes):
    assert refusal(**changes).field == f"config.{key}"


def test_layers_and_excludes_limit_what_is_adapted():
    config = parse(layers_to_transform=[1], exclude_modules=["v_proj"])
    assert config.adapts("model.layers.1.self_attn.q_proj", 1)
    assert not config.adapts("model.layers.0.self_attn.q_proj", 0)
    assert not config.adapts("model.layers.1.self_attn.v_proj", 1)


def test_peft_s_word_for_no_module_is_none_beside_a_classifier_alone():
    none = {"target_modules": "dummy-target-modules"}
    assert refusal(**none).field == "config.target_modules"
    data = config_bytes(**none, task_type="SEQ_CLS", modules_to_save=["classifier"])
    config = parse_adapter_config(data, max_rank=64, architecture=ENCODER)
    assert config.target_modules == frozenset()


@pytest.mark.parametrize("spelling", ["all-linear", "ALL-LINEAR"])
def test_all_linear_adapts_everything(spelling):
    assert parse(target_modules=spelling).adapts("model.layers.5.mlp.up_proj", 5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"r": 65}, "65"),
        ({"r": 600}, "600"),
        ({"r": 65536}, "65536"),
        ({"r": 10**400}, "huge"),
        ({"r": 8, "rank_pattern": {"k_proj": 128}}, "128"),
    ],
)
def test_rank_over_the_cap_is_refused_naming_both_A03_T03(changes, told):
    error = refusal(**changes)
    assert told in error.message
    assert "64" in error.message
    if "rank_pattern" in changes:
        assert "k_proj" in error.message
        assert error.field == "config.rank_pattern"
    else:
        assert error.field == "config.r"


@pytest.mark.parametrize("rank", [0, -1, 8.5, "8", True, None, ..., [8], 1e3])
def test_bad_rank_is_refused_by_field_A11(rank):
    assert refusal(r=rank).field == "config.r"


@pytest.mark.parametrize("rank", [0, -1, 8.5, "8", True, None])
def test_bad_rank_in_the_pattern_is_refused_A11(rank):
    error = refusal(rank_pattern={"layers.0.self_attn.q_proj": rank})
    assert error.field == "config.rank_pattern"
    assert "layers.0.self_attn.q_proj" in error.message


@pytest.mark.parametrize("alpha", [..., None, 0, -1, 1e308, 10**400, "16", True, [1]])
def test_bad_alpha_is_refused_T03(alpha):
    assert refusal(lora_alpha=alpha).field == "config.lora_alpha"


def test_alpha_pattern_values_are_checked_too():
    assert refusal(alpha_pattern={"q_proj": 0}).field == "config.alpha_pattern"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_non_finite_literals_are_refused_T03(literal):
    text = json.dumps(config_document(lora_alpha="HERE")).replace('"HERE"', literal)
    with pytest.raises(AdapterRejectedError):
        parse_adapter_config(text.encode(), max_rank=64)


def test_unknown_keys_that_hold_nothing_are_ignored_A07():
    parse(
        eva_config=None, corda_config=None, exclude_modules=None, trainable_token_indices=None,
        lora_bias=False, brand_new=[], other_new={}, third="", loftq_config={},
        megatron_core="megatron.core", qalora_group_size=16,
        runtime_config={"ephemeral_gpu_offload": False},
    )  # fmt: skip


def test_unknown_key_with_a_value_is_refused_by_name_A07():
    error = refusal(brand_new_option={"x": 1})
    assert error.field == "config"  # fields are logged, so they hold no word of a tenant's
    assert "brand_new_option" in error.message


def test_hostile_key_is_never_echoed_P11():
    error = refusal(**{"a\nb \ud83d{{7*7}}": 1})
    assert "{{" not in error.message
    error.message.encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"use_dora": True},
        {"modules_to_save": ["embed_tokens", "lm_head"]},
        {"lora_bias": True},
        {"trainable_token_indices": [1]},
        {"layer_replication": [[0, 2]]},
        {"auto_mapping": {"parent_library": "evil"}},
        {"auto_map": {"AutoModel": "evil.py"}},
        {"trust_remote_code": True},
        {"megatron_config": {"a": 1}, "megatron_core": "evil"},
        {"megatron_core": "this"},
        {"loftq_config": {"loftq_bits": 4}},
        {"use_qalora": True},
        {"target_parameters": ["experts"]},
        {"alora_invocation_tokens": [1]},
    ],
)
def test_unserved_features_are_refused_by_name_A05_A21_T08_T09(changes):
    error = refusal(**changes)
    name = next(iter(changes))
    assert error.field in ("config", f"config.{name}")
    assert name in error.message


@pytest.mark.parametrize("bias", ["all", "lora_only", True, None])
def test_bias_is_refused_A13(bias):
    assert refusal(bias=bias).field == "config.bias"


@pytest.mark.parametrize(
    "init", ["pissa", "pissa_niter_16", "olora", "loftq", "corda", "lora_ga", "mica", 1, None, {}]
)
def test_initialisation_that_rewrites_the_base_is_refused_A21_T10(init):
    assert refusal(init_lora_weights=init).field == "config.init_lora_weights"


@pytest.mark.parametrize("init", [True, False, "gaussian", "orthogonal", "eva"])
def test_harmless_initialisation_is_accepted(init):
    parse(init_lora_weights=init)


def test_config_that_names_code_imports_nothing_T08_T09():
    before = set(sys.modules)
    refusal(megatron_config={"a": 1}, megatron_core="this")
    assert "this" not in set(sys.modules) - before


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", ".*", "q_proj|v_proj", "layers.[0-9]+.q_proj", "q_proj$", "", "a..b"]
)
def test_regular_expressions_are_refused_not_run_T03(pattern):
    assert refusal(rank_pattern={pattern: 4}).field == "config.rank_pattern"
    assert refusal(target_modules=[pattern]).field == "config.target_modules"
    if pattern:
        assert refusal(exclude_modules=pattern).field == "config.exclude_modules"
        assert refusal(target_modules=pattern).field == "config.target_modules"


def test_too_many_pattern_entries_are_refused_T03():
    assert refusal(rank_pattern={f"m{i}": 1 for i in range(5000)}).field == "config.rank_pattern"


@pytest.mark.parametrize("targets", [[], None, ..., "", [1], {"q_proj": 1}, 7])
def test_bad_targets_are_refused(targets):
    assert refusal(target_modules=targets).field == "config.target_modules"


@pytest.mark.parametrize("layers", [-1, [0.5], "0", [True], [10**9], {"a": 1}])
def test_bad_layers_are_refused(layers):
    assert refusal(layers_to_transform=layers).field == "config.layers_to_transform"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("peft_type", "IA3"),
        ("peft_type", ...),
        ("task_type", "SEQ_CLS"),
        ("lora_dropout", 2),
        ("lora_dropout", "x"),
        ("use_rslora", "true"),
        ("fan_in_fan_out", 1),
        ("layers_pattern", "blocks"),
        ("rank_pattern", [1]),
    ],
)
def test_other_bad_fields_are_refused_by_name(key, value):
    assert refusal(**{key: value}).field == f"config.{key}"


@pytest.mark.parametrize(
    ("key", "value"), [("inference_mode", "yes"), ("base_model_name_or_path", {"a": 1})]
)
def test_ignored_fields_have_to_have_their_type(key, value):
    assert key in refusal(**{key: value}).message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"r": 1, "r": 2}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a":' * 200_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"r": ' + b"9" * 10_000 + b"}",
        b"{} trailing",
        b"<html></html>",
        b"{" + b" " * (1 << 20) + b"}",
        config_bytes().replace(b"r", b"\x00", 1),
    ],
)
def test_anything_but_one_small_json_object_is_refused_T30(data):
    with pytest.raises(AdapterRejectedError) as caught:
        parse_adapter_config(data, max_rank=64)
    assert caught.value.field


def test_canonical_form_is_readable_and_forgets_provenance():
    one = parse(base_model_name_or_path="x/y", peft_version="1", rank_pattern={"q_proj": 2})
    two = parse(base_model_name_or_path=None, rank_pattern={"q_proj": 2})
    assert one.canonical_bytes() == two.canonical_bytes()
    assert parse_adapter_config(one.canonical_bytes(), max_rank=64) == one


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
known_keys = st.sampled_from(
    [
        "r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "bias", "use_rslora",
        "layers_to_transform", "layers_pattern", "exclude_modules", "init_lora_weights",
        "peft_type", "task_type", "lora_dropout", "auto_mapping", "megatron_core",
    ]
)  # fmt: skip


@given(st.dictionaries(known_keys | st.text(max_size=12), json_values, max_size=6))
def test_any_config_is_read_or_refused_and_never_crashes(changes):
    data = json.dumps({**config_document(), **changes}).encode()
    try:
        config = parse_adapter_config(data, max_rank=64)
    except AdapterRejectedError as error:
        assert error.field
        error.message.encode()
    else:
        assert 1 <= config.max_rank <= 64
        assert parse_adapter_config(config.canonical_bytes(), max_rank=64) == config


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_as_config(data):
    with pytest.raises(AdapterRejectedError):
        parse_adapter_config(data, max_rank=64)
