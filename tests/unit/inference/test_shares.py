"""How a step's time is divided over its rows."""

import random

import pytest

from services.inference.engine.shares import (
    OTHER,
    AdapterShare,
    Row,
    Shares,
    adapter_parameters,
    base_parameters,
    busiest,
)
from tests.support.stand_in_backend import stand_in_model

SIZES = {"small": 10, "large": 100, "gone": 0}


def row(*digests, tokens=1, is_prompt=False, has_output=True):
    return Row(digests, tokens, is_prompt=is_prompt, has_output=has_output)


def by_digest(shares):
    return {share.digest: share for share in shares.totals()}


def test_a_row_costs_its_tokens_times_the_parameters_they_pass():
    shares = Shares(100, SIZES.__getitem__)
    rows = [
        row(),
        row("large"),
        row("large", tokens=3, is_prompt=True, has_output=False),
        row("small", tokens=10, is_prompt=True),
    ]
    seconds = shares.divide(2.0, rows)
    assert seconds == pytest.approx([200 / 2000, 400 / 2000, 1200 / 2000, 2200 / 2000])
    totals = by_digest(shares)
    assert totals["large"].step_s == pytest.approx(1600 / 2000)
    assert (totals["large"].num_prompt_tokens, totals["large"].num_output_tokens) == (3, 1)
    assert (totals["small"].num_prompt_tokens, totals["small"].num_output_tokens) == (10, 1)
    assert (totals[""].num_prompt_tokens, totals[""].num_output_tokens) == (0, 1)


def test_several_adapters_of_a_row_share_the_base_and_pay_for_themselves():
    shares = Shares(100, SIZES.__getitem__)
    (seconds,) = shares.divide(2.1, [row("small", "large")])
    assert seconds == pytest.approx(2.1)
    totals = by_digest(shares)
    assert totals["small"].step_s == pytest.approx(0.6)
    assert totals["large"].step_s == pytest.approx(1.5)


def test_an_adapter_that_has_just_left_still_passed_the_base():
    shares = Shares(100, SIZES.__getitem__)
    shares.divide(1.0, [row("gone"), row()])
    assert by_digest(shares)["gone"].step_s == pytest.approx(0.5)


def test_the_shares_add_up_to_the_time_of_all_steps():
    random_choice = random.Random(1)
    shares = Shares(1_000_000, lambda digest: 1 + int(digest))
    rows_s = 0.0
    for _ in range(2000):
        rows = [
            row(
                *{str(random_choice.randrange(40)) for _ in range(random_choice.randrange(4))},
                tokens=random_choice.randint(1, 64),
            )
            for _ in range(random_choice.randint(1, 16))
        ]
        rows_s += sum(shares.divide(random_choice.uniform(1e-4, 0.1), rows))
    assert sum(share.step_s for share in shares.totals()) == pytest.approx(shares.step_s, rel=1e-9)
    assert rows_s == pytest.approx(shares.step_s, rel=1e-9)


def test_more_adapters_than_are_counted_go_together_the_unused_first():
    shares = Shares(100, lambda digest: 1)
    for number in range(3000):
        shares.divide(1.0, [row("busy"), row(str(number))])
    totals = by_digest(shares)
    assert len(totals) == 1025
    assert totals["busy"].num_output_tokens == 3000
    assert totals[OTHER].num_output_tokens == 3000 - 1023
    assert "2999" in totals and "0" not in totals
    assert sum(share.step_s for share in totals.values()) == pytest.approx(3000.0)


def test_the_busiest_are_told_and_the_rest_together():
    some = [AdapterShare("a", 1.0, 1, 1), AdapterShare(OTHER, 9.0, 2, 2), AdapterShare("b", 3.0)]
    assert [share.digest for share in busiest(some, 3)] == ["b", "a", OTHER]
    assert busiest(some[:1], 3) == some[:1]
    assert busiest(some, 2) == [AdapterShare("b", 3.0), AdapterShare(OTHER, 10.0, 3, 3)]
    many = [AdapterShare(str(n), float(n)) for n in range(300)]
    told = busiest(many, 256)
    assert len(told) == 256
    assert sum(share.step_s for share in told) == sum(share.step_s for share in many)


def test_parameters_come_from_the_models_shape():
    model = stand_in_model()
    linear = sum(rows * columns for rows, columns in model.targets.values())
    assert base_parameters(model) == model.num_layers * linear + model.vocab_size * 32
    assert adapter_parameters(model, 8) == 8 * adapter_parameters(model, 1)
