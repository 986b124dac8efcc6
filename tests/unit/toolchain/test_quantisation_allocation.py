"""Which kinds products get under a policy or a budget."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.quantisation.allocation import (
    Choice,
    default_policy,
    divergence,
    policy_kind,
    size,
    within_budget,
)
from edgelora.toolchain.quantisation.kinds import INT4, INT4_MINIMUM, INT5, INT6, INT8, KINDS
from edgelora.toolchain.quantisation.options import QuantisationOptions, SizeBudget

RATIOS = {INT4: 1.0, INT4_MINIMUM: 0.8, INT5: 0.25, INT6: 0.06, INT8: 0.004}


def choice(name, num_weights, cost, default=INT4):
    return Choice(name, num_weights, {k: cost * r for k, r in RATIOS.items()}, default)


def test_the_policy_promotes_what_is_sensitive_and_leaves_the_rest():
    choices = [choice("quiet", 1000, 1e-5), choice("loud", 1000, 0.5), choice("qkv", 9, 9, INT8)]
    chosen = default_policy(choices, max_divergence=0.04)
    assert chosen["quiet"] is INT4
    assert chosen["loud"] is INT8
    assert chosen["qkv"] is INT8
    assert divergence(choices, chosen) < 0.04


def test_the_policy_of_a_model_that_does_not_mind_is_int8_attention_and_int4():
    sites = ("attention", "output", "feed_forward", "down", "head")
    choices = [choice(site, 100, 1e-6, policy_kind(site)) for site in sites]
    kinds = [default_policy(choices)[site] for site in sites]
    assert kinds == [INT8, INT4, INT4, INT4, INT8]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.floats(0, 1, allow_subnormal=False)),
        min_size=1,
        max_size=4,
    ),
    st.floats(4.5, 9.0),
)
def test_a_budget_is_kept_and_no_single_change_within_it_is_better(products, bits):
    choices = [choice(str(i), 3200 * n, cost) for i, (n, cost) in enumerate(products)]
    budget = int(bits * sum(one.num_weights for one in choices) / 8)
    chosen = within_budget(choices, budget)
    assert size(choices, chosen) <= budget
    for one, kind in itertools.product(choices, KINDS):
        changed = {**chosen, one.name: kind}
        if size(choices, changed) <= budget:
            assert divergence(choices, changed) >= divergence(choices, chosen)


def test_a_tight_budget_lowers_the_head_too():
    choices = [choice("head", 2000, 0.01), choice("rest", 1000, 0.5)]
    chosen = within_budget(choices, 3000 * 5 // 8 + 1)
    assert chosen["head"] is INT4
    assert chosen["rest"] is not INT4


def test_a_budget_below_the_smallest_kinds_is_refused_with_the_remedy():
    with pytest.raises(ToolchainError, match=r"budget is 0.1 MB.*needs 0.6 MB: raise it"):
        within_budget([choice("a", 1_000_000, 1.0)], 100_000)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("90MB", 90_000_000), ("0.5GiB", 2**29), ("5.0b", 625), ("4.5 b", 562)],
)
def test_a_budget_is_bytes_or_bits_a_weight(text, num_bytes):
    assert SizeBudget.parse(text).bytes_of(1000) == num_bytes


@pytest.mark.parametrize("text", ["", "90", "MB", "-1MB", "0b", "1e3MB", "5 bits", "nan b"])
def test_other_budgets_are_refused(text):
    with pytest.raises(ToolchainError, match="such as 90MB"):
        SizeBudget.parse(text)


@pytest.mark.parametrize(
    "changes", [{"inputs": 0}, {"inputs": 1001}, {"input_tokens": 3}, {"held_out_inputs": 0}]
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ToolchainError, match="must be from"):
        QuantisationOptions(**changes).check()
