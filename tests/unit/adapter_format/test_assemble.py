"""Pairing of factors: complete, fitting, finite and effective, or refused."""

import numpy as np
import pytest

from edgelora.adapter_format import AdapterWeights, read_adapter
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError, EdgeLoraError
from tests.support.adapter_files import (
    TINY_LAYERS,
    TINY_TARGETS,
    bfloat16_bytes,
    config_bytes,
    safetensors_bytes,
    tensor_name,
    tensors,
)

Q0_A, Q0_B = tensor_name(0, "q_proj", "A"), tensor_name(0, "q_proj", "B")


def read(named, targets=TINY_TARGETS, **changes) -> AdapterWeights:
    _, weights = read_adapter(
        config_bytes(**changes),
        named if isinstance(named, bytes) else safetensors_bytes(named),
        targets=targets,
        num_layers=TINY_LAYERS,
        max_rank=64,
    )
    return weights


def refusal(named, error_class: type[EdgeLoraError] = AdapterRejectedError, **changes) -> str:
    with pytest.raises(error_class) as caught:
        read(named, **changes)
    assert caught.value.field
    return caught.value.message


def test_every_tensor_becomes_a_factor():
    named = tensors()
    weights = read(named)
    assert set(weights.pairs) == {(i, m) for i in range(TINY_LAYERS) for m in ("q_proj", "v_proj")}
    np.testing.assert_array_equal(weights.pairs[0, "q_proj"].lora_a, named[Q0_A])
    assert weights.pairs[0, "q_proj"].scaling == 2.0
    assert weights.max_rank == 4


def test_values_do_not_follow_the_file_T32():
    data = bytearray(safetensors_bytes(tensors()))
    weights = read(bytes(data))
    _, other = read_adapter(
        config_bytes(), data, targets=TINY_TARGETS, num_layers=TINY_LAYERS, max_rank=64
    )
    data[-64:] = bytes(64)
    for key, pair in weights.pairs.items():
        np.testing.assert_array_equal(other.pairs[key].lora_b, pair.lora_b)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace(".weight", ".default.weight"),
        lambda name: name.replace("base_model.model.model.", "base_model.model."),
    ],
)
def test_other_spellings_of_names_are_the_same_adapter(rename):
    named = tensors()
    renamed = read({rename(name): values for name, values in named.items()})
    np.testing.assert_array_equal(
        renamed.pairs[1, "v_proj"].lora_b, named[tensor_name(1, "v_proj", "B")]
    )


def test_half_precision_is_cast_Z04():
    named = {name: values.astype("<f2") for name, values in tensors().items()}
    pair = read(named).pairs[0, "q_proj"]
    assert pair.lora_a.dtype == np.float32
    np.testing.assert_array_equal(pair.lora_a, named[Q0_A].astype(np.float32))


def test_bfloat16_is_accepted_Z04():
    named = tensors()
    np.testing.assert_allclose(
        read(bfloat16_bytes(named)).pairs[0, "q_proj"].lora_a, named[Q0_A], rtol=1 / 64
    )


def test_rank_pattern_decides_the_shape():
    named = tensors(("v_proj",)) | tensors(("q_proj",), rank=2)
    pair = read(named, rank_pattern={"q_proj": 2}).pairs[1, "q_proj"]
    assert (pair.lora_a.shape, pair.scaling) == ((2, 32), 4.0)


def test_fan_in_fan_out_does_not_change_the_shapes_of_a_file():
    one, two = read(tensors()), read(tensors(), fan_in_fan_out=True)
    np.testing.assert_array_equal(one.pairs[0, "q_proj"].lora_a, two.pairs[0, "q_proj"].lora_a)


def test_different_target_sets_are_both_read_A18():
    assert len(read(tensors()).pairs) == 4
    mlp = ("gate_proj", "up_proj", "down_proj")
    assert len(read(tensors(mlp), target_modules=list(mlp)).pairs) == 6


def test_all_linear_needs_every_module():
    assert len(read(tensors(tuple(TINY_TARGETS)), target_modules="all-linear").pairs) == 14
    assert "o_proj" in refusal(
        tensors(tuple(m for m in TINY_TARGETS if m != "o_proj")), target_modules="all-linear"
    )


def test_layers_to_transform_limits_the_file():
    named = {name: v for name, v in tensors().items() if ".layers.1." in name}
    assert set(read(named, layers_to_transform=1).pairs) == {(1, "q_proj"), (1, "v_proj")}
    refusal(named)
    refusal(tensors(), layers_to_transform=[1])
    refusal(named, AdapterIncompatibleError, layers_to_transform=[1, 2])


def test_cut_pair_is_refused():
    named = tensors()
    del named[Q0_B]
    assert "lora_B is missing" in refusal(named)


def test_module_missing_from_the_file_is_refused_by_name():
    assert "model.layers.0.self_attn.k_proj" in refusal(
        tensors(), target_modules=["q_proj", "v_proj", "k_proj"]
    )


def test_module_missing_from_the_config_is_refused_by_name():
    assert "v_proj" in refusal(tensors(), target_modules=["q_proj"])


def test_unserved_target_is_refused_listing_it_A20():
    served = {name: TINY_TARGETS[name] for name in ("q_proj", "k_proj", "v_proj")}
    message = refusal(
        tensors(("down_proj",)),
        AdapterIncompatibleError,
        targets=served,
        target_modules=["down_proj"],
    )
    assert "down_proj" in message
    assert "q_proj" in message


@pytest.mark.parametrize(
    "target", ["lm_head", "embed_tokens", "c_attn", "layers.9.self_attn.q_proj"]
)
def test_target_that_does_not_exist_is_refused_by_name(target):
    assert target in refusal(
        tensors(), AdapterIncompatibleError, target_modules=["q_proj", "v_proj", target]
    )


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.lm_head.weight",
        "base_model.model.model.embed_tokens.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight",
        "base_model.model.model.layers.00.self_attn.k_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight\n",
        "x",
    ],
)
def test_left_over_tensor_is_refused_A05(name):
    refusal(tensors() | {name: np.ones((4, 32), dtype="<f4")})


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.layers.0.weighted_gate.lora_A.weight",
        "base_model.model.model.layers.0.mlp.weighted_gate.lora_A.weight",
        "base_model.model.model.layers.0.mlp.q_proj.lora_A.weight",
        "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight",
    ],
)
def test_module_that_does_not_exist_is_refused_not_skipped_A10(name):
    with pytest.raises((AdapterRejectedError, AdapterIncompatibleError)):
        read(tensors() | {name: np.ones((4, 32), dtype="<f4")})


def test_same_factor_under_two_names_is_refused():
    named = tensors()
    named[Q0_A.replace(".weight", ".default.weight")] = named[Q0_A]
    assert "twice" in refusal(named)


def test_wrong_base_shape_is_refused_with_both_shapes_A06():
    named = tensors()
    named[Q0_A] = np.ones((4, 33), dtype="<f4")
    message = refusal(named, AdapterIncompatibleError)
    assert "4x33" in message
    assert "4x32" in message


def test_rank_of_the_file_has_to_equal_the_config():
    refusal(tensors(rank=2), AdapterIncompatibleError)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [Q0_A, Q0_B])
def test_non_finite_value_is_refused_naming_tensor_and_count_A15_T04(value, name):
    named = tensors()
    named[name][0, :3] = value
    message = refusal(named)
    assert "layers.0.self_attn.q_proj.lora_" in message
    assert "3 values" in message


def test_finite_but_overflowing_value_is_refused_A15():
    named = tensors()
    named[Q0_B][0, 0] = 3e38
    assert "overflow" in refusal(named)


def test_half_precision_infinity_is_refused_A15():
    named = {name: values.astype("<f2") for name, values in tensors().items()}
    named[Q0_A][0, 0] = np.inf
    refusal(named)


@pytest.mark.parametrize("factor", ["A", "B"])
def test_adapter_without_any_effect_is_refused(factor):
    named = {
        name: np.zeros_like(values) if f"lora_{factor}" in name else values
        for name, values in tensors().items()
    }
    assert "change nothing" in refusal(named)


def test_one_module_with_an_effect_is_enough():
    named = {
        name: np.zeros_like(values) if "lora_B" in name and ".1." in name else values
        for name, values in tensors().items()
    }
    assert read(named).pairs


def test_rank_over_the_cap_is_refused_before_the_weights_are_read_A03():
    with pytest.raises(AdapterRejectedError) as caught:
        read(b"never read", r=600)
    assert caught.value.field == "config.r"
