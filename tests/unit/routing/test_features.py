"""Hashed n-grams: the same everywhere, for every text."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.routing.features import MAX_TEXT_LENGTH, MAX_WORDS, text_features

BUCKETS = 8192
GOLDEN = {
    "": ([7650, 5940, 275, 3292, 7709, 7349], [0]),
    "Turn on": (
        [
            7512,
            6469,
            1595,
            4238,
            311,
            7233,
            288,
            6011,
            5367,
            5472,
            4806,
            3153,
            898,
            6763,
            811,
            6663,
            2011,
            958,
            5894,
            522,
            2333,
            7519,
            5612,
            7321,
            1034,
            7851,
            6189,
            1761,
            4409,
            1485,
            278,
            84,
            421,
            4687,
            469,
            6934,
        ],
        [0, 22],
    ),
    "日本 é": (
        [
            236,
            6310,
            5918,
            3841,
            3961,
            6505,
            4384,
            203,
            2009,
            1617,
            2975,
            6131,
            3114,
            2291,
            7804,
            2922,
            5671,
            1323,
            5842,
            7093,
            155,
            3613,
            5918,
            6777,
        ],
        [0, 14],
    ),
}


@pytest.mark.parametrize("text", GOLDEN)
def test_buckets_never_change(text):
    features = text_features(text, BUCKETS)
    assert (features.buckets.tolist(), features.starts.tolist()) == GOLDEN[text]


def test_another_process_with_another_hash_seed_agrees():
    program = (
        "from edgelora.routing.features import text_features;"
        "print(text_features('Tell me a story', 8192).buckets.tolist())"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.strip() == str(text_features("Tell me a story", BUCKETS).buckets.tolist())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NOW", "now"),
        ("caf\u0065\u0301", "caf\u00e9"),
        ("\uff37\uff49\uff44\uff45", "wide"),
        (" a\t\nb ", "a b"),
        ("what?!", "what ? !"),
    ],
)
def test_spellings_of_the_same_text(one, other):
    first, second = (text_features(text, BUCKETS).buckets.tolist() for text in (one, other))
    assert first == second


def test_a_word_has_its_own_ngrams_wherever_it_stands():
    alone = text_features("light", BUCKETS)
    inside = text_features("dim light", BUCKETS)
    assert inside.starts.tolist() == [0, 2 + 4 * len(" dim")]
    assert len(inside.buckets) == 2 * 2 + 4 * len(" dim light")
    assert inside.buckets[inside.starts[1] :].tolist() == alone.buckets.tolist()


def test_the_next_word_and_the_order_of_words_count():
    assert text_features("a b", BUCKETS).buckets[1] != text_features("a c", BUCKETS).buckets[1]
    assert set(text_features("a b", BUCKETS).buckets) != set(text_features("b a", BUCKETS).buckets)


@pytest.mark.parametrize("long", ["x" * 10_000, "a " * 5000, "\ufdfa" * 4096, "! " * 4096])
def test_a_long_text_is_cut(long):
    features = text_features(long, BUCKETS)
    assert len(features.starts) <= MAX_WORDS
    assert len(features.buckets) <= 4 * (MAX_TEXT_LENGTH + MAX_WORDS) + 2 * MAX_WORDS
    assert features.buckets.tolist() == text_features(long + "tail", BUCKETS).buckets.tolist()


@given(st.text(st.characters(), max_size=80), st.integers(1, 70_000))
def test_every_text_has_words_and_buckets_in_range(text, buckets):
    features = text_features(text, buckets)
    assert features.starts[0] == 0
    assert (np.diff(features.starts) > 0).all()
    assert features.starts[-1] < len(features.buckets)
    assert features.buckets.min() >= 0
    assert features.buckets.max() < buckets
