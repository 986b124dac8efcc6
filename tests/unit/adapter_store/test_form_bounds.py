"""When an encoded form is near enough to its original."""

import dataclasses

import pytest

from services.adapter_store.certificate import Divergence, TaskMetric
from services.adapter_store.measuring import is_within_bounds

NEAR = Divergence(positions=100, mean_kl=0.01, max_kl=5.0, top1_agreement=0.5)
FAR = dataclasses.replace(NEAR, mean_kl=0.03)
TASK = TaskMetric(
    lines=10, before=0.8, after=0.8, tokens_before=0.9, tokens_after=0.9, divergence=NEAR
)


@pytest.mark.parametrize(
    ("divergence", "task", "is_within"),
    [
        (NEAR, None, True),
        (FAR, None, False),
        (dataclasses.replace(NEAR, mean_kl=0.02), None, True),
        (NEAR, TASK, True),
        (FAR, TASK, False),
        (NEAR, dataclasses.replace(TASK, divergence=FAR), False),
        (NEAR, dataclasses.replace(TASK, after=0.7), True),
        (NEAR, dataclasses.replace(TASK, after=0.6), False),
        (NEAR, dataclasses.replace(TASK, after=1.0), True),
        (NEAR, dataclasses.replace(TASK, tokens_after=0.892), True),
        (NEAR, dataclasses.replace(TASK, tokens_after=0.89), False),
        (NEAR, dataclasses.replace(TASK, tokens_before=0.0, tokens_after=0.0), True),
    ],
)
def test_both_bounds_hold(divergence, task, is_within):
    assert is_within_bounds(divergence, task, 0.02) is is_within
