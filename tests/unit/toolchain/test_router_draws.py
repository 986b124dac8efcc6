"""What a training step of the router holds."""

import numpy as np
import pytest

from edgelora.routing.features import text_features
from edgelora.toolchain.router_draws import RoutedTexts, TextPool
from edgelora.toolchain.router_targets import TargetRules

WORDS = ("lamp", "cake", "train")
OUTSIDE = 3


@pytest.fixture
def data():
    texts = [f"{word} number {n}" for word in WORDS for n in range(12)] + ["weather", "news"]
    domains = np.array([d for d in range(3) for _ in range(12)] + [OUTSIDE] * 2)
    losses = np.full((len(texts), 4), 3.0, np.float32)
    losses[:, 0] = 4
    rows = np.flatnonzero(domains < OUTSIDE)
    losses[rows, 1 + domains[rows]] = 0
    losses[domains == OUTSIDE] = [0, 9, 9, 9]
    cards = [[f"card of {word}", f"{word} number 3"] for word in WORDS]
    return RoutedTexts(texts=texts, domains=domains, losses=losses, cards=cards)


def pool(data, seed=0):
    return TextPool(data, 4096, TargetRules(), np.random.default_rng(seed))


def test_the_same_seed_draws_the_same(data):
    for one, other in zip(
        (pool(data).draw(), pool(data, 0).draw()), (pool(data).draw(),) * 2, strict=True
    ):
        assert one.targets.tolist() == other.targets.tolist()
        assert [text.buckets.tolist() for text in one.texts] == [
            text.buckets.tolist() for text in other.texts
        ]


def test_shapes_and_targets(data):
    texts = pool(data)
    for _ in range(30):
        draw = texts.draw()
        rows, adapters = len(draw.texts) + len(draw.pairs), draw.num_adapters
        assert draw.targets.shape == (rows, adapters + 1)
        assert draw.overlap.shape == draw.resident.shape == (rows, adapters)
        assert len(draw.device) == rows
        assert len(draw.examples) % adapters == 0
        assert draw.targets.sum(1).numpy() == pytest.approx(np.ones(rows), abs=1e-5)
        for row, column in enumerate(draw.columns.tolist()):
            # Its own adapter, or the base where that is not there or the text has none.
            assert draw.targets[row].argmax() == column
        assert (draw.targets[len(draw.texts) :, -1] == 1).all()


def test_no_text_is_an_example_while_it_is_routed(data):
    texts = pool(data)
    for _ in range(30):
        draw = texts.draw()
        count = len(draw.examples) // draw.num_adapters
        routed = [tuple(text.buckets) for text in draw.texts]
        for column in range(draw.num_adapters):
            examples = draw.examples[column * count : (column + 1) * count]
            own = {routed[row] for row in np.flatnonzero(draw.columns.numpy() == column)}
            # A domain of which every text is drawn has nothing else to give.
            if len(own) < 6:
                assert not own & {tuple(text.buckets) for text in examples}


def test_rare_ngrams_weigh_more(data):
    texts = pool(data)
    rarity = texts.rarity
    assert rarity.shape == (4096,)
    assert (rarity > 0).all()
    common = text_features("number", 4096).buckets[0]
    rare = text_features("weather", 4096).buckets[0]
    assert rarity[common] < rarity[rare]
