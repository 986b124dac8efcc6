"""The measures of what encoding costs, against plain ones in double precision."""

import numpy as np
import pytest

from edgelora.adapter_format import AdapterWeights, LoraPair
from services.adapter_store.verification.delta_norms import layer_norms, relative_error
from services.adapter_store.verification.divergence import DivergenceSum, divergences

VOCAB = 5000


def logits(seed: int, rows: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 4, (rows, VOCAB)).astype(np.float32)


def plain(original: np.ndarray, other: np.ndarray) -> np.ndarray:
    def log_softmax(values):
        values = values.astype(np.float64)
        return values - np.log(np.exp(values).sum(axis=1, keepdims=True))

    log_p, log_q = log_softmax(original), log_softmax(other)
    return (np.exp(log_p) * (log_p - log_q)).sum(axis=1)


@pytest.mark.parametrize("size", [1.0, 0.1, 0.01])
def test_divergence_is_that_of_the_definition(size):
    original = logits(0)
    other = original + np.float32(size) * logits(1) / 4
    assert divergences(original, other) == pytest.approx(plain(original, other), rel=1e-3, abs=1e-6)


def test_divergence_of_equal_distributions_is_nothing():
    original = logits(0)
    assert divergences(original, original).max() < 1e-6
    assert divergences(original, original + np.float32(3)).max() < 1e-5
    assert divergences(original + 80, original - 80).max() < 1e-5


def test_inputs_stay_as_they_are():
    original, other = logits(0), logits(1)
    before = original.copy(), other.copy()
    divergences(original, other)
    assert (original == before[0]).all()
    assert (other == before[1]).all()


def test_sum_has_mean_largest_and_share_of_agreement():
    total = DivergenceSum()
    first, second = logits(0), logits(1)
    changed = second + logits(2) / 8
    changed[2, 17] = 99.0
    total.add(first, first)
    total.add(second, changed)
    result = total.result()
    assert result.positions == 12
    expected = plain(second, changed)
    assert result.mean_kl == pytest.approx(expected.sum() / 12, rel=1e-3)
    assert result.max_kl == pytest.approx(expected.max(), rel=1e-3)
    agreed = (second.argmax(axis=1) == changed.argmax(axis=1)).sum() + 6
    assert result.top1_agreement == agreed / 12 < 1


def weights(seed: int, rank: int = 3) -> AdapterWeights:
    rng = np.random.default_rng(seed)
    return AdapterWeights(
        {
            (layer, module): LoraPair(
                rng.normal(size=(rank, 40)).astype(np.float32),
                rng.normal(size=(24, rank)).astype(np.float32),
                0.5 + layer,
            )
            for layer in (4, 1)
            for module in ("q_proj", "v_proj")
        }
    )


def product(pair: LoraPair) -> np.ndarray:
    return pair.scaling * pair.lora_b.astype(np.float64) @ pair.lora_a.astype(np.float64)


def test_layer_norms_are_those_of_the_products():
    adapter = weights(0)
    norms = layer_norms(adapter)
    assert list(norms) == [1, 4]
    for layer, norm in norms.items():
        products = [product(pair) for key, pair in adapter.pairs.items() if key[0] == layer]
        assert norm == pytest.approx(np.linalg.norm(np.stack(products)), rel=1e-9)


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 0.0])
def test_relative_error_is_that_of_the_products(noise):
    adapter = weights(0)
    pairs = dict(adapter.pairs)
    rng = np.random.default_rng(1)
    for key, pair in pairs.items():
        change = noise * rng.normal(size=pair.lora_a.shape)
        pairs[key] = LoraPair((pair.lora_a + change).astype("<f4"), pair.lora_b, pair.scaling)
    del pairs[4, "v_proj"]
    difference = [
        product(pair) - (product(pairs[key]) if key in pairs else 0)
        for key, pair in adapter.pairs.items()
    ]
    whole = [product(pair) for pair in adapter.pairs.values()]
    expected = np.linalg.norm(np.stack(difference)) / np.linalg.norm(np.stack(whole))
    assert relative_error(adapter, AdapterWeights(pairs)) == pytest.approx(expected, rel=1e-6)
