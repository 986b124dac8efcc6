"""The evaluation's arithmetic, on tables made by hand."""

import numpy as np
import pytest

from edgelora.toolchain.router_score import out_of_scope, policy_losses

NAMES = ("base", "red", "blue")
LOSSES = np.array(
    [
        [3.0, 1.0, 2.0],
        [3.0, 0.0, 2.0],
        [3.0, 2.0, 1.0],
        [3.0, 2.0, 0.0],
        [1.0, 4.0, 4.0],
        [1.0, 0.5, 4.0],
    ]
)
DOMAINS = np.array([0, 0, 1, 1, 2, 2])


def test_policies():
    found = policy_losses(LOSSES, DOMAINS, np.array([1, 1, 1, 2, 0, 0]), NAMES)
    assert found.best_single_name == "red"
    assert found.best_single == pytest.approx(9.5 / 6, abs=1e-4)
    assert found.random == pytest.approx(LOSSES.mean(), abs=1e-4)
    assert found.task_prior == pytest.approx((1 + 1 + 2) / 6, abs=1e-4)
    assert found.router == pytest.approx(5 / 6, abs=1e-4)
    assert found.oracle == pytest.approx(3.5 / 6, abs=1e-4)
    assert found.gain == pytest.approx(4.5 / 6, abs=1e-4)


@pytest.mark.parametrize(("choices", "gain"), [([1] * 6, 0.0), ([1, 1, 2, 2, 0, 1], 1.0)])
def test_the_ends_of_the_scale(choices, gain):
    assert policy_losses(LOSSES, DOMAINS, np.array(choices), NAMES).gain == gain


def test_worse_than_one_adapter_for_all_is_negative():
    assert policy_losses(LOSSES, DOMAINS, np.array([0] * 4 + [2] * 2), NAMES).gain < 0


def test_nothing_to_gain():
    losses = np.array([[2.0, 1.0], [2.0, 1.0]])
    assert policy_losses(losses, np.array([0, 1]), np.array([0, 1]), ("base", "red")).gain is None


def test_out_of_scope():
    found = out_of_scope(inside_to_base=10, outside_to_base=30, outside=40)
    assert (found.texts, found.recall, found.precision) == (40, 0.75, 0.75)
    assert out_of_scope(0, 0, 5).precision is None
