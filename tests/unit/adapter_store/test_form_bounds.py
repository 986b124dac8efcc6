"""When an encoded form is near enough to its original."""

import dataclasses

import pytest

from services.adapter_store.verification.certificate import Divergence, TaskMetric
from services.adapter_store.verification.measuring import is_within_bounds

NEAR = Divergence(positions=100, mean_kl=0.01, max_kl=5.0, top1_agreement=0.5)
FAR = dataclasses.replace(NEAR, mean_kl=0.03)
TASK = TaskMetric(
    lines=10,
    before=0.8,
    after=0.8,
    tokens_right=400,
    tokens_lost=0,
    tokens_gained=0,
    divergence=NEAR,
)


def task(**changes) -> TaskMetric:
    return dataclasses.replace(TASK, **changes)


@pytest.mark.parametrize(
    ("divergence", "own", "is_within"),
    [
        (NEAR, None, True),
        (FAR, None, False),
        (dataclasses.replace(NEAR, mean_kl=0.02), None, True),
        (NEAR, TASK, True),
        (FAR, TASK, False),
        (NEAR, task(divergence=FAR), False),
        (NEAR, task(after=0.7), True),
        (NEAR, task(after=0.6), False),
        (NEAR, task(after=1.0), True),
        # 4 of 400 are 1 %; of n that change sides 2 sqrt(n) may do so to the worse by chance.
        (NEAR, task(tokens_lost=12), False),
        (NEAR, task(tokens_lost=11), False),
        (NEAR, task(tokens_lost=10), True),
        (NEAR, task(tokens_lost=26, tokens_gained=10), True),
        (NEAR, task(tokens_lost=27, tokens_gained=10), False),
        (NEAR, task(tokens_lost=10, tokens_gained=26), True),
        (NEAR, task(tokens_right=0, tokens_gained=3), True),
    ],
)
def test_all_bounds_hold(divergence, own, is_within):
    assert is_within_bounds(divergence, own, 0.02) is is_within
