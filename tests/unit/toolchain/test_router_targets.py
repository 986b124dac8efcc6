"""From losses to what the router should answer."""

import numpy as np
import pytest

from edgelora.toolchain.router_targets import (
    LOAD_PRICE,
    PRESSED_LOAD_PRICE,
    TargetRules,
    fill_unmeasured,
    load_prices,
    shares,
)

RULES = TargetRules(temperature=0.5, margin=0.1, tolerance=0.5)


def row(*losses):
    return np.array([losses], np.float32)


def test_equal_adapters_share_and_the_base_keeps_what_it_is_worth():
    wanted = shares(row(1.0, 0.5, 0.5), np.zeros((1, 2), np.float32), RULES)[0]
    e = np.exp(-1)
    np.testing.assert_allclose(wanted, [e / (2 + e), 1 / (2 + e), 1 / (2 + e)], rtol=1e-6)


@pytest.mark.parametrize("losses", [(1.0, 0.95, 2.0), (1.0, 1.0, 1.0), (0.0, 1e6, 1e6)])
def test_an_adapter_that_hardly_beats_the_base_leaves_it_to_the_base(losses):
    wanted = shares(row(*losses), np.zeros((1, 2), np.float32), RULES)
    assert wanted.tolist() == [[1.0, 0.0, 0.0]]


def test_an_adapter_of_another_domain_is_no_substitute_for_one_that_is_not_there():
    losses = row(6.0, 0.1, 3.0)
    everywhere = shares(losses, np.zeros((1, 2), np.float32), RULES)[0]
    assert everywhere[1] > 0.99
    assert everywhere[2] == 0
    without = shares(losses, row(np.inf, 0.0), RULES)
    assert without.tolist() == [[1.0, 0.0, 0.0]]


def test_a_price_shifts_shares_by_its_nats():
    priced = shares(row(3.0, 0.5, 0.5), row(0.25, 0.0), RULES)[0]
    assert priced[2] / priced[1] == pytest.approx(np.exp(0.25 / 0.5))


def test_loading_costs_most_on_the_worst_dimension():
    devices = [
        (0, 0, 0, 0, 0, 0),
        (0, 0, 1, 0, 0.5, 0),
        (0, 0, 0.5, 0, 0, 0),
        (0, 1, 0, 0, 0, 0),
    ]
    half = (LOAD_PRICE + PRESSED_LOAD_PRICE) / 2
    np.testing.assert_allclose(
        load_prices(np.array(devices, np.float32)),
        [LOAD_PRICE, PRESSED_LOAD_PRICE, half, half],
        rtol=1e-6,
    )


def test_texts_that_are_not_measured_count_like_their_domain():
    none = [np.nan, np.nan]
    losses = np.array([[1, 2], none, [3, 6], [9, 9], none], np.float32)
    filled = fill_unmeasured(losses, np.array([0, 0, 0, 1, 1]))
    assert filled.tolist() == [[1, 2], [2, 4], [3, 6], [9, 9], [9, 9]]
    with pytest.raises(ValueError, match="domain 1"):
        fill_unmeasured(np.array([[1, 2], none], np.float32), np.array([0, 1]))
