"""Lower-rank versions: the best there are, and the same adapter in every other way."""

import json
import math

import numpy as np
import pytest

from edgelora.adapter_format import read_adapter
from edgelora.adapter_format.rank_cut import Decomposition, cut_adapter
from edgelora.errors import AdapterRejectedError, InvalidRequestError
from tests.support.adapter_files import (
    TINY_LAYERS,
    TINY_TARGETS,
    bfloat16_bytes,
    config_bytes,
    config_document,
    module_path,
    safetensors_bytes,
    tensor_name,
    tensors,
)

PATTERNS = {"rank_pattern": {"v_proj": 6, "layers.1.self_attn.q_proj": 12}, "lora_alpha": 5}


def products(config, weights):
    """(layer, module) -> its update, in float64."""
    _, read = read_adapter(
        config, weights, targets=TINY_TARGETS, num_layers=TINY_LAYERS, max_rank=64
    )
    return {
        key: pair.scaling * pair.lora_b.astype(np.float64) @ pair.lora_a.astype(np.float64)
        for key, pair in read.pairs.items()
    }


def best(product, rank):
    """The nearest matrix of a rank, by the SVD of the whole matrix."""
    u, s, v = np.linalg.svd(product)
    return u[:, :rank] * s[:rank] @ v[:rank]


def patterned():
    """Factors of the ranks of PATTERNS beside an `r` of 8."""
    factors = tensors(rank=8)
    for layer, module, rank in ((0, "v_proj", 6), (1, "v_proj", 6), (1, "q_proj", 12)):
        for name in "AB":
            own = tensors((module,), rank=rank, seed=layer)
            factors[tensor_name(layer, module, name)] = own[tensor_name(layer, module, name)]
    return factors


@pytest.mark.parametrize("use_rslora", [False, True])
@pytest.mark.parametrize("rank", [1, 3, 6, 7, 10])
def test_cut_is_the_nearest_there_is_whatever_the_scaling(rank, use_rslora):
    config = config_bytes(r=8, use_rslora=use_rslora, **PATTERNS)
    weights = safetensors_bytes(patterned())
    cut = cut_adapter(config, weights, rank)
    before, after = products(config, weights), products(cut.config, cut.weights)
    for key, product in before.items():
        assert np.abs(after[key] - best(product, rank)).max() < 1e-6, key
        # Eckart and Young: what is lost is what the smallest singular values hold.
        tail = np.linalg.svd(product, compute_uv=False)[rank:]
        assert np.linalg.norm(after[key] - product) == pytest.approx(np.linalg.norm(tail), abs=1e-6)
    lost = math.sqrt(sum(np.linalg.norm(after[key] - before[key]) ** 2 for key in before))
    whole = math.sqrt(sum(np.linalg.norm(product) ** 2 for product in before.values()))
    assert cut.relative_error == pytest.approx(lost / whole, abs=1e-6)


def test_no_other_cut_is_nearer():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((8, 40)), rng.standard_normal((24, 8))
    parts = Decomposition.of(a, b)
    low_a, low_b = parts.factors(3)
    error = np.linalg.norm(b @ a - low_b @ low_a)
    assert error == pytest.approx(np.linalg.norm(parts.values[3:]))
    for _ in range(200):
        near_a = low_a + 0.05 * rng.standard_normal(low_a.shape)
        near_b = low_b + 0.05 * rng.standard_normal(low_b.shape)
        assert np.linalg.norm(b @ a - near_b @ near_a) > error
    assert np.linalg.norm(b @ a - b[:, :3] @ a[:3]) > error, "leaving out rows is worse"


def test_full_rank_changes_nothing_also_above_the_sizes():
    rng = np.random.default_rng(1)
    for rank, num_in, num_out in ((4, 32, 16), (16, 8, 12), (1, 3, 3)):
        a, b = rng.standard_normal((rank, num_in)), rng.standard_normal((num_out, rank))
        same_a, same_b = Decomposition.of(a, b).factors(rank)
        assert (same_a.shape, same_b.shape) == (a.shape, b.shape)
        assert np.allclose(same_b @ same_a, b @ a, atol=1e-12)


def test_config_says_the_new_rank_and_keeps_the_rest():
    document = config_document(r=8, alpha_pattern={"v_proj": 3}, lora_dropout=0.1, **PATTERNS)
    cut = cut_adapter(json.dumps(document).encode(), safetensors_bytes(patterned()), 7)
    changed = {
        "r": 7,
        "rank_pattern": {"v_proj": 6, "layers.1.self_attn.q_proj": 7},
    }
    assert json.loads(cut.config) == document | changed
    assert cut.rank == 7


def test_modules_of_a_lower_rank_stay_bit_for_bit():
    factors = patterned()
    cut = cut_adapter(config_bytes(r=8, **PATTERNS), safetensors_bytes(factors), 7)
    _, after = read_adapter(
        cut.config, cut.weights, targets=TINY_TARGETS, num_layers=TINY_LAYERS, max_rank=64
    )
    for layer in range(TINY_LAYERS):
        pair = after.pairs[layer, "v_proj"]
        assert np.array_equal(pair.lora_a, factors[tensor_name(layer, "v_proj", "A")])
        assert np.array_equal(pair.lora_b, factors[tensor_name(layer, "v_proj", "B")])


def test_cut_of_a_module_without_effect_has_none():
    factors = tensors(rank=4)
    factors[tensor_name(0, "q_proj", "B")][:] = 0
    cut = cut_adapter(config_bytes(), safetensors_bytes(factors), 2)
    after = products(cut.config, cut.weights)
    assert not after[0, "q_proj"].any()
    assert after[0, "v_proj"].any()


def test_half_precision_is_cut_too():
    factors = tensors(rank=4)
    exact = products(config_bytes(), safetensors_bytes(factors))
    cut = cut_adapter(config_bytes(), bfloat16_bytes(factors), 3)
    for key, product in products(cut.config, cut.weights).items():
        assert np.linalg.matrix_rank(product, tol=1e-6) == 3
        assert np.abs(product - best(exact[key], 3)).max() < 0.02


@pytest.mark.parametrize("rank", [0, -1, 4, 5, 64])
def test_rank_that_is_not_lower_is_refused(rank):
    with pytest.raises(InvalidRequestError, match="1 to 3") as caught:
        cut_adapter(config_bytes(), safetensors_bytes(tensors()), rank)
    assert caught.value.field == "ranks"


def test_own_rank_is_that_of_the_modules_not_of_an_unused_default():
    config = config_bytes(r=32, rank_pattern={"q_proj": 4, "v_proj": 4})
    with pytest.raises(InvalidRequestError, match="1 to 3"):
        cut_adapter(config, safetensors_bytes(tensors()), 16)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "LOHA"}, "LORA"),
    ],
)
def test_what_can_not_be_cut_is_named(changes, named):
    with pytest.raises(AdapterRejectedError, match=named):
        cut_adapter(config_bytes(**changes), safetensors_bytes(tensors()), 2)


def without(name):
    return {key: values for key, values in tensors().items() if key != name}


@pytest.mark.parametrize(
    ("factors", "named"),
    [
        (tensors() | {"base_model.model.lm_head.weight": np.ones((2, 2), "<f4")}, "no LoRA factor"),
        (without(tensor_name(0, "q_proj", "A")), "lacks one"),
        (tensors(rank=5), "rank 4"),
        (tensors() | {tensor_name(0, "q_proj", "A"): np.full((4, 32), np.nan, "<f4")}, "NaN"),
        (tensors() | {tensor_name(0, "q_proj", "A"): np.ones(4, "<f4")}, "rank 4"),
        (
            tensors()
            | {
                tensor_name(0, "q_proj", "A").replace(".weight", ".default.weight"): np.ones(
                    (4, 32), "<f4"
                )
            },
            "twice",
        ),
    ],
)
def test_factors_that_do_not_fit_are_refused(factors, named):
    with pytest.raises(AdapterRejectedError, match=named):
        cut_adapter(config_bytes(), safetensors_bytes(factors), 2)


def test_cut_of_a_cut_is_the_cut_to_the_lower_rank():
    weights = safetensors_bytes(tensors(rank=8))
    config = config_bytes(r=8)
    twice = cut_adapter(config, weights, 6)
    twice = cut_adapter(twice.config, twice.weights, 2)
    once = cut_adapter(config, weights, 2)
    one, two = products(once.config, once.weights), products(twice.config, twice.weights)
    for key in one:
        assert np.abs(one[key] - two[key]).max() < 1e-6
    assert module_path(0, "q_proj") in twice.weights.decode("latin-1")
