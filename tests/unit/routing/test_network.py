"""What serves computes what was trained."""

import numpy as np
import pytest
import torch

from edgelora.routing import DeviceState, Router, RouterFile
from edgelora.routing.features import text_features
from edgelora.routing.network import ngram_vector
from tests.support.routers import SHAPE, random_twin

TEXTS = ("Turn on the light", "", "What is the capital of France? " * 40, "ok", "日本語 テスト!")
CARDS = [["turn off the lamp", "dim it"], ["where is Rome", "what is a city"], ["hello", "bye bye"]]
CALM = DeviceState(temperature=0.0, memory=0.0, battery=0.0)
HOT = DeviceState(temperature=1.0, memory=None, battery=0.5)


@pytest.fixture(scope="module")
def twin():
    return random_twin()


@pytest.fixture(scope="module")
def router(twin):
    return Router(RouterFile(twin.weights(), 0.25))


@pytest.fixture(scope="module")
def table(router):
    return router.table([router.prototype("", card) for card in CARDS])


def test_vectors_equal_the_twins(twin, router):
    features = [text_features(text, SHAPE.num_buckets) for text in TEXTS]
    expected = twin.vectors(features).detach().numpy()
    served = np.stack([router.embed(text).vector for text in TEXTS])
    np.testing.assert_allclose(served, expected, atol=1e-5)


@pytest.mark.parametrize("device", [CALM, HOT, DeviceState()])
@pytest.mark.parametrize("text", TEXTS)
def test_scores_equal_the_twins(twin, router, table, text, device):
    resident = [True, False, True]
    served = router.scores(router.embed(text), table, device, resident)
    cards = [text_features(one, SHAPE.num_buckets) for card in CARDS for one in card]
    # The overlap from its definition: cosine of dense vectors of n-grams.
    dense = np.zeros((1 + len(cards), SHAPE.num_buckets), np.float32)
    rarity = twin.rarity.numpy()
    for row, features in enumerate([text_features(text, SHAPE.num_buckets), *cards]):
        vector = ngram_vector(features, rarity)
        dense[row, vector.buckets] = vector.values
    means = dense[1:].reshape(3, 2, -1).mean(1)
    overlap = dense[:1] @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    expected = twin.scores(
        twin.vectors([text_features(text, SHAPE.num_buckets)]),
        twin.vectors(cards).reshape(3, 2, -1),
        torch.from_numpy(overlap),
        torch.from_numpy(device.features())[None],
        torch.tensor([[1.0, 0.0, 1.0]]),
    )
    np.testing.assert_allclose(served, expected.detach().numpy()[0], atol=1e-5)


def test_the_order_of_candidates_does_not_matter(router):
    prototypes = [router.prototype("about it", card) for card in CARDS]
    text = router.embed("dim the lamp")
    forward = router.scores(text, router.table(prototypes), HOT, [True, False, False])
    backward = router.scores(text, router.table(prototypes[::-1]), HOT, [False, False, True])
    np.testing.assert_allclose(forward[:3], backward[:3][::-1], atol=1e-6)
    assert forward[3] == pytest.approx(backward[3])


def test_without_candidates_there_is_the_base(router):
    assert router.scores(router.embed("x"), router.table([]), CALM, []).shape == (1,)


def test_device_and_residency_change_scores(router, table):
    text = router.embed("dim the lamp")
    calm = router.scores(text, table, CALM, [True] * 3)
    assert (router.scores(text, table, HOT, [True] * 3) != calm).all()
    cold = router.scores(text, table, CALM, [False, True, True])
    assert (cold != calm).tolist() == [True, False, False, False]


def test_one_flag_a_candidate(router, table):
    with pytest.raises(ValueError, match="one flag a candidate"):
        router.scores(router.embed("x"), table, CALM, [True])


def test_a_prototype_needs_words(router):
    assert len(router.prototype("what it does", []).examples) == 1
    with pytest.raises(ValueError, match="description or an example"):
        router.prototype(" ", [])


def test_ngrams_have_length_one_and_rare_ones_weigh_more():
    rarity = np.ones(64, np.float32)
    features = text_features("a b", 64)
    vector = ngram_vector(features, rarity)
    assert np.linalg.norm(vector.values) == pytest.approx(1)
    rarity[vector.buckets[0]] = 3
    assert ngram_vector(features, rarity).values[0] > vector.values[0]
