"""What scores lead to, by hand-made examples and by the bounds that always hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.routing.decision import Reason, RoutingRules, decide, softmax

RULES = RoutingRules(top_k=2, min_share=0.1, min_mix_share=0.1, max_quality_loss=0.1)
TEMPERATURE = 0.5
"""Nats for a unit of score: 0.2 of score are 0.1 nats."""


def decided(quality, base: float, rules, *, resident=(), cost: float = 5.0):
    """Decides among candidates of which those that are not resident cost as much to load."""
    held = np.array([index in resident for index in range(len(quality))], np.bool_)
    every = np.array([*quality, base], np.float32)
    scores = every - np.append(np.where(held, 0, cost), 0).astype(np.float32)
    return decide(every, scores, held, TEMPERATURE, rules)


def choose(*values: float, resident=(), cost: float = 5.0, **changes):
    """Decides by shares, the base model's last."""
    assert math.isclose(sum(values), 1.0)
    rules = RoutingRules(**{name: getattr(RULES, name) for name in RULES.__slots__} | changes)
    *quality, base = np.log(np.array(values))
    return decided(quality, base, rules, resident=resident, cost=cost)


def test_the_best_adapter_serves_with_its_share_and_the_base_with_the_rest():
    decision = choose(0.02, 0.82, 0.16)
    assert decision.reason is Reason.BEST
    ((chosen, strength),) = decision.adapters
    assert chosen == 1
    assert strength == pytest.approx(0.82 / 0.98)
    assert decision.base_share == pytest.approx(0.16 / 0.98)


def test_two_that_fit_are_mixed_largest_first_and_a_small_base_share_is_left_out():
    decision = choose(0.36, 0.56, 0.05, 0.03)
    assert [chosen for chosen, _ in decision.adapters] == [1, 0]
    assert [share for _, share in decision.adapters] == pytest.approx([0.56 / 0.92, 0.36 / 0.92])
    assert decision.base_share == 0.0


def test_top_k_bounds_the_mix():
    assert len(choose(0.3, 0.3, 0.3, 0.1, top_k=1).adapters) == 1
    assert len(choose(0.3, 0.3, 0.3, 0.1, top_k=3).adapters) == 3


@pytest.mark.parametrize(
    "values",
    [(1.0,), (0.3, 0.3, 0.4), (0.45, 0.1, 0.45), (0.09,) * 11 + (0.01,)],
    ids=["no candidates", "base first", "base equal", "below the least share"],
)
def test_the_base_model_serves(values):
    decision = choose(*values, resident=(0,))
    assert decision.reason is Reason.BASE
    assert (decision.adapters, decision.base_share) == ((), 1.0)


def test_a_resident_near_equal_is_taken_alone_and_its_loss_is_told():
    decision = choose(0.45, 0.40, 0.10, 0.05, resident=(1, 2))
    assert decision.reason is Reason.RESIDENT
    ((chosen, strength),) = decision.adapters
    assert chosen == 1
    assert strength == pytest.approx(0.40 / 0.45)
    assert decision.quality_loss == pytest.approx(TEMPERATURE * math.log(0.45 / 0.40))


def test_a_resident_one_that_loses_too_much_is_not_taken():
    assert choose(0.55, 0.40, 0.05, resident=(1,)).reason is Reason.BEST
    assert choose(0.55, 0.40, 0.05, resident=(1,), max_quality_loss=0.3).reason is Reason.RESIDENT


def test_the_loss_does_not_depend_on_who_else_is_there():
    few = choose(0.5, 0.45, 0.05, resident=(1,))
    many = choose(0.10, 0.09, *([0.01] * 80), 0.01, resident=(1,))
    assert (
        few.quality_loss == many.quality_loss == pytest.approx(TEMPERATURE * math.log(0.5 / 0.45))
    )


def test_within_the_bound_the_resident_one_serves_whatever_loading_would_cost():
    """0.45 for 0.40 is a difference of 0.118 in score, 0.059 nats."""
    for cost in (0.0, 0.11, 0.12):
        assert choose(0.45, 0.40, 0.15, resident=(1,), cost=cost).reason is Reason.RESIDENT
    decision = choose(0.45, 0.40, 0.15, resident=(1,), max_quality_loss=0.058)
    assert decision.reason is Reason.BEST


def test_a_bound_of_0_always_loads_the_best():
    decision = choose(0.45, 0.45, 0.1, resident=(1,), max_quality_loss=0.0)
    assert decision.reason is Reason.BEST
    assert [chosen for chosen, _ in decision.adapters] == [0, 1]


def test_when_half_of_the_mix_is_resident_the_best_serves_alone_without_loss():
    decision = choose(0.5, 0.4, 0.1, resident=(0,))
    assert decision.reason is Reason.RESIDENT
    assert [chosen for chosen, _ in decision.adapters] == [0]
    assert decision.quality_loss == 0.0


def test_a_resident_adapter_that_the_base_model_beats_is_not_taken():
    assert choose(0.40, 0.21, 0.39, resident=(1,), max_quality_loss=0.6).reason is Reason.BEST


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_lead_to_the_base_model(wrong):
    for quality, base in (([2.0, wrong], 0.0), ([2.0, 1.0], wrong)):
        assert decided(quality, base, RULES).reason is Reason.BASE


numbers = st.floats(-30, 30, width=32)


@given(
    each=st.lists(st.tuples(numbers, st.booleans()), max_size=40),
    base=numbers,
    cost=st.floats(0, 10, width=32),
    top_k=st.integers(1, 4),
    bounds=st.tuples(*[st.floats(0, 1)] * 3),
)
def test_whatever_the_scores_the_bounds_hold(each, base, cost, top_k, bounds):
    rules = RoutingRules(
        top_k=top_k, min_share=bounds[0], min_mix_share=bounds[1], max_quality_loss=bounds[2]
    )
    held = {index for index, (_, is_held) in enumerate(each) if is_held}
    quality = [score for score, _ in each]
    decision = decided(quality, base, rules, resident=held, cost=cost)
    chosen = [candidate for candidate, _ in decision.adapters]
    strengths = [share for _, share in decision.adapters]
    assert sum(strengths) + decision.base_share == pytest.approx(1.0)
    assert strengths == sorted(strengths, reverse=True)
    assert all(0.0 < strength <= 1.0 for strength in strengths)
    assert len(set(chosen)) == len(chosen) <= top_k
    assert (decision.reason is Reason.BASE) == (not chosen)
    if chosen:
        assert quality[chosen[0]] > base
        lost = TEMPERATURE * (max(quality) - quality[chosen[0]])
        assert decision.quality_loss == lost
        assert lost == 0 or lost < rules.max_quality_loss
        assert decision.reason is not Reason.RESIDENT or held.issuperset(chosen)
        assert softmax(np.array([*quality, base]))[chosen[0]] > 0
