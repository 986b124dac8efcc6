"""The quantisers compared with do what they are known for."""

import numpy as np
import pytest

from bench.plain_quantisers import QUANTISERS, normal_float, num_parameters, round_to_nearest
from edgelora.adapter_format import AdapterWeights, LoraPair
from tests.support.trained_weights import relative_error, trained_weights


@pytest.fixture
def weights():
    return trained_weights({(0, "q_proj"): 5, (1, "down_proj"): 8})


def test_more_bits_err_less(weights):
    errors = [relative_error(weights, round_to_nearest(bits)(weights)[0]) for bits in (3, 4, 8)]
    assert 0.3 > errors[0] > 2 * errors[1] > 20 * errors[2] > 0


def test_the_scales_are_counted(weights):
    assert {name: quantise(weights)[1] for name, quantise in QUANTISERS.items()} == {
        "int3, group 64": 3.5,
        "int4, group 64": 4.5,
        "NF4, block 64": 4.5,
    }
    assert num_parameters(weights) == 5 * 192 + 8 * 352


def test_values_on_the_grid_stay_as_they_are():
    even = np.linspace(-1, 1.8125, 8, dtype=np.float32)
    values = np.resize(even, (2, 96))
    weights = AdapterWeights({(0, "q_proj"): LoraPair(values, values.T.copy(), 1.0)})
    found = round_to_nearest(3)(weights)[0].pairs[0, "q_proj"]
    np.testing.assert_allclose(found.lora_a, values, atol=0.002)
    np.testing.assert_allclose(found.lora_b, values.T, atol=0.002)


def test_normal_float_keeps_the_largest_of_a_block_and_zeros():
    values = np.zeros((1, 128), np.float32)
    values[0, 3], values[0, 70] = -7.25, 0.5
    weights = AdapterWeights({(0, "q_proj"): LoraPair(values, values.T.copy(), 1.0)})
    np.testing.assert_array_equal(normal_float(weights)[0].pairs[0, "q_proj"].lora_a, values)
