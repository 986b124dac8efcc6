"""Encoding and decoding: close to the original, within the bits, the same every time."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgelora.adapter_format import AdapterWeights, LoraPair, read_adapter
from edgelora.adapter_format.codec import LEVELS, decode, encode, read_encoded_header
from edgelora.adapter_format.codec.components import decompose
from edgelora.errors import AdapterRejectedError
from tests.support.adapter_files import bfloat16_bytes, config_bytes, tensor_name
from tests.support.encoded_adapters import BASE_DIGEST, DIGEST
from tests.support.trained_weights import SHAPES, relative_error, trained_weights

ALL_LINEAR_R16 = {(layer, module): 16 for layer in range(3) for module in SHAPES}
keys = st.tuples(st.integers(0, 40), st.sampled_from(sorted(SHAPES)))


def encoded(weights: AdapterWeights, level: float = 3.2) -> bytes:
    return encode(weights, digest=DIGEST, base_digest=BASE_DIGEST, level=level)


def test_a_trained_adapter_fits_and_keeps_what_it_does():
    weights = trained_weights(ALL_LINEAR_R16)
    for level, bound in ((3.2, 0.06), (4.5, 0.03), (8.0, 0.02)):
        data = encoded(weights, level)
        header = read_encoded_header(data)
        assert header.file_bytes == len(data)
        assert 0.9 * level < header.bits_per_parameter <= level
        assert relative_error(weights, decode(data)) < bound


def test_the_header_says_what_it_is_and_holds():
    weights = trained_weights({(3, "q_proj"): 16, (5, "up_proj"): 8}, decay=0.3)
    data = encoded(weights)
    header = read_encoded_header(data[:128])
    decoded = decode(data)
    assert (header.digest, header.base_digest) == (DIGEST, BASE_DIGEST)
    assert (header.level, header.original_rank) == (3.2, 16)
    assert header.num_parameters == 16 * (96 + 96) + 8 * (256 + 96)
    assert header.num_modules == len(decoded.pairs) == 2
    assert header.rank == decoded.max_rank < 16


def test_the_same_adapter_has_the_same_bytes():
    weights = trained_weights(ALL_LINEAR_R16)
    assert encoded(weights) == encoded(weights)
    reordered = AdapterWeights(dict(reversed(weights.pairs.items())))
    assert encoded(reordered) == encoded(weights)


@settings(deadline=None, max_examples=15)
@given(
    st.dictionaries(keys, st.integers(1, 64), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.floats(0.4, 1.0),
)
def test_more_bits_err_less_at_any_mixture_of_ranks(ranks, seed, decay):
    weights = trained_weights(ranks, seed=seed, decay=decay)
    decoded = [decode(encoded(weights, level)) for level in LEVELS]
    errors = [relative_error(weights, one) for one in decoded]
    # Where 3.2 bits are enough for 8 in every component that counts, more add nothing.
    assert 0.95 > errors[0] > 0.99 * errors[1] > 0.98 * errors[2]
    assert errors[2] < 0.06
    for one in decoded:
        assert set(one.pairs) == set(ranks)
        for key, pair in one.pairs.items():
            assert pair.lora_b.shape == (SHAPES[key[1]][0], len(pair.lora_a))
            assert 1 <= len(pair.lora_a) <= min(ranks[key], *SHAPES[key[1]])


ENCODE_ONE = """
import hashlib
from tests.unit.adapter_format.codec.test_round_trip import encoded, untrained_weights
print(hashlib.sha256(encoded(untrained_weights())).hexdigest())
"""


def untrained_weights() -> AdapterWeights:
    """Made without linear algebra; all singular values of a module are nearly the same."""
    draw = np.random.default_rng(1)
    pairs = {}
    for layer in range(300):
        lora_a = draw.standard_normal((16, 96), np.float32)
        lora_b = draw.standard_normal((96, 16), np.float32)
        pairs[layer, "q_proj"] = LoraPair(lora_a, lora_b, 0.125)
    return AdapterWeights(pairs)


@pytest.mark.parametrize("kernel", ["Prescott", "Haswell"])
def test_other_kernels_of_the_linear_algebra_make_the_same_bytes(kernel):
    # Packages are made on other machines. Without this OpenBLAS the variable has no effect.
    found = subprocess.run(
        [sys.executable, "-c", ENCODE_ONE],
        env={**os.environ, "OPENBLAS_CORETYPE": kernel},
        cwd=Path(__file__).resolve().parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == hashlib.sha256(encoded(untrained_weights())).hexdigest()


def test_of_a_component_and_its_negative_it_is_always_the_same_one():
    for module in decompose(untrained_weights()):
        largest = np.abs(module.inputs).argmax(axis=1)
        assert (module.inputs[np.arange(16), largest] > 0).all()


def test_a_rank_above_the_size_of_the_module():
    weights = trained_weights({(0, "k_proj"): 64}, decay=0.99)
    decoded = decode(encoded(weights, 8.0))
    assert decoded.pairs[0, "k_proj"].lora_a.shape == (32, 96)
    assert relative_error(weights, decoded) < 0.05


@pytest.mark.parametrize("size", [1e-12, 1e-3, 6e4])
def test_any_size_of_values_and_scaling(size):
    weights = trained_weights({(0, "q_proj"): 8}, size=size, scaling=1e6)
    assert relative_error(weights, decode(encoded(weights, 8.0))) < 0.05


def test_a_negative_scaling_stays_negative():
    weights = trained_weights({(0, "q_proj"): 8}, scaling=-2.0)
    assert relative_error(weights, decode(encoded(weights, 8.0))) < 0.05


def test_modules_far_apart_in_size_are_all_kept():
    loud, quiet = (trained_weights({(0, "q_proj"): 4}, size=size) for size in (10, 1e-6))
    both = AdapterWeights(
        {(0, "q_proj"): loud.pairs[0, "q_proj"], (1, "q_proj"): quiet.pairs[0, "q_proj"]}
    )
    decoded = decode(encoded(both))
    assert len(decoded.pairs[1, "q_proj"].lora_a) == 1
    assert relative_error(quiet, AdapterWeights({(0, "q_proj"): decoded.pairs[1, "q_proj"]})) < 0.95


def test_modules_that_change_nothing_are_left_out():
    weights = trained_weights({(0, "q_proj"): 4})
    idle = LoraPair(np.ones((4, 96), np.float32), np.zeros((96, 4), np.float32), 1.0)
    # Two ranks that take each other back: neither factor is zero, their product is.
    cancelled = LoraPair(
        np.repeat(weights.pairs[0, "q_proj"].lora_a[:1], 2, axis=0),
        np.outer(np.linspace(-1, 1, 96), [1, -1]).astype(np.float32),
        1.0,
    )
    pairs = {(0, "k_proj"): idle, (0, "o_proj"): cancelled}
    decoded = decode(encoded(AdapterWeights(weights.pairs | pairs)))
    assert set(decoded.pairs) == {(0, "q_proj")}
    with pytest.raises(AdapterRejectedError, match="zero"):
        encoded(AdapterWeights(pairs))


def test_bfloat16_and_rank_stabilised_scaling():
    draw = np.random.default_rng(2)
    wide = {"A": draw.standard_normal((16, 96)), "B": 0.1 * draw.standard_normal((96, 16))}
    tensors = {tensor_name(0, "q_proj", factor): values for factor, values in wide.items()}
    config = config_bytes(r=16, target_modules=["q_proj"], use_rslora=True)
    _, weights = read_adapter(
        config, bfloat16_bytes(tensors), targets=SHAPES, num_layers=1, max_rank=64
    )
    decoded = decode(encoded(weights, 8.0))
    pair = decoded.pairs[0, "q_proj"]
    product = 8 / 4 * wide["B"] @ wide["A"]
    found = pair.scaling * pair.lora_b.astype(np.float64) @ pair.lora_a
    assert np.linalg.norm(found - product) < 0.05 * np.linalg.norm(product)


def test_what_the_form_has_no_room_for_is_refused():
    narrow = LoraPair(np.ones((2, 48), np.float32), np.ones((96, 2), np.float32), 1.0)
    with pytest.raises(ValueError, match="multiples of 32 features, not 48"):
        encoded(AdapterWeights({(0, "q_proj"): narrow}))
    deep = LoraPair(np.ones((1025, 32), np.float32), np.ones((32, 1025), np.float32), 1.0)
    with pytest.raises(ValueError, match="rank 1024, not 1025"):
        encoded(AdapterWeights({(0, "q_proj"): deep}))


@pytest.mark.parametrize(
    "changes", [{"level": 3.0}, {"digest": "sha256:12"}, {"base_digest": DIGEST.upper()}]
)
def test_malformed_arguments_are_refused(changes):
    weights = trained_weights({(0, "q_proj"): 1})
    arguments = {"digest": DIGEST, "base_digest": BASE_DIGEST, "level": 3.2}
    with pytest.raises(ValueError, match=r"has to be|have to be"):
        encode(weights, **(arguments | changes))
