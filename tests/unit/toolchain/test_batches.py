"""Batches hold every example once and little padding; the learning rate rises and falls."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from edgelora.toolchain.batches import batches_by_length, learning_rate_share


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(1, 900))
def test_every_example_is_in_one_batch_within_the_limit(lengths: list[int], limit: int) -> None:
    batches = batches_by_length(lengths, limit, random.Random(3))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= limit


def test_batches_hold_examples_of_like_length() -> None:
    batches = batches_by_length([10, 100, 11, 99], 220, random.Random(0))
    assert sorted(sorted(batch) for batch in batches) == [[0, 2], [1, 3]]


def test_order_depends_on_the_seed_only() -> None:
    lengths = list(range(1, 50))
    same = [batches_by_length(lengths, 60, random.Random(5)) for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != batches_by_length(lengths, 60, random.Random(6))


@given(st.integers(1, 400), st.floats(0, 0.9), st.sampled_from(["cosine", "linear"]))
def test_learning_rate_stays_above_zero_and_at_most_the_peak(
    steps: int, warmup: float, schedule: str
) -> None:
    shares = [learning_rate_share(step, steps, warmup, schedule) for step in range(steps)]  # type: ignore[arg-type]
    assert all(0 < share <= 1 for share in shares)
    peak = shares.index(max(shares))
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


def test_learning_rate_ends_near_zero() -> None:
    for schedule in ("cosine", "linear"):
        assert learning_rate_share(99, 100, 0.05, schedule) < 0.01
