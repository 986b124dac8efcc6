"""Bits go where they help most, and never beyond the budget."""

import itertools

import numpy as np
import pytest

from edgelora.adapter_format.codec.allocation import DISTORTION, allocate


def chosen(energies, budget, *, num_in=96, num_out=96, required=0):
    count = len(energies)
    return allocate(
        np.array(energies, float),
        np.full(count, num_in),
        np.full(count, num_out),
        np.arange(count) < required,
        budget,
    )


def cost(bits):
    """Of [components, ..., 2] bits, with 96 values in each factor."""
    return (96 * bits.sum(axis=-1) + 32 * (bits[..., 0] > 0)).sum(axis=0)


def loss(energies, bits):
    kept = (1 - np.array(DISTORTION)[bits]).prod(axis=-1)
    return np.tensordot(energies, 1 - kept, 1)


def test_no_cheaper_choice_of_bits_loses_less():
    energies = [9.0, 2.0, 0.4]
    pairs = np.array([(0, 0), *itertools.product(range(1, 9), repeat=2)])
    every = pairs[np.indices((len(pairs),) * 3).reshape(3, -1)]
    for budget in (400, 1200, 2500, 3600):
        bits = chosen(energies, budget)
        assert cost(bits) <= budget
        affordable = every[:, cost(every) <= cost(bits)]
        assert loss(energies, affordable).min() >= loss(energies, bits) - 1e-9


def test_stronger_components_and_shorter_factors_get_more():
    bits = chosen([16.0, 4.0, 1.0, 0.0001], 3 * 3 * 192, num_in=96, num_out=192)
    assert (np.diff(bits.sum(axis=1)) <= 0).all()
    assert bits[0, 0] >= bits[0, 1]
    assert tuple(bits[3]) == (0, 0)


@pytest.mark.parametrize("budget", [0, 100])
def test_what_is_required_stays_beyond_the_budget(budget):
    assert [tuple(pair) for pair in chosen([4.0, 1.0, 1.0], budget, required=2)] == [
        (1, 1),
        (1, 1),
        (0, 0),
    ]


def test_everything_is_given_when_there_is_room():
    assert (chosen([4.0, 1.0], 1e9) == 8).all()
