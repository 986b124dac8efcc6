"""The cards, the trace and the sums of the routing benchmark."""

from __future__ import annotations

import json

import pytest

from bench.route_cards import demo_groups, held_out_prompts, version_cards
from bench.route_trace import QualityJudge, RoutedAnswer, summarise_answers, write_trace
from edgelora.adapter_format.card import parse_card
from edgelora.routed import RoutedAdapter, Routing
from tests.support.small_router import TEMPERATURE, small_router


def test_versions_of_a_group_are_near_equals_that_differ_and_their_cards_are_valid():
    cards = version_cards(demo_groups(), 8, seed=1)
    assert cards == version_cards(demo_groups(), 8, seed=1)
    assert [card.group for card in cards] == [g for g in demo_groups() for _ in range(8)]
    assert len(set(cards)) == len(cards)
    for card in cards:
        parsed = parse_card(json.dumps(card.document()).encode())
        assert parsed.examples == card.examples


def test_a_trace_is_held_out_evenly_mixed_and_the_same_for_the_same_seed():
    groups = demo_groups()
    trace = write_trace(groups, 400, seed=3)
    assert trace == write_trace(groups, 400, seed=3) != write_trace(groups, 400, seed=4)
    shown = {text for card in version_cards(demo_groups(), 8, seed=1) for text in card.examples}
    assert not shown & set(trace)
    for group in groups:
        assert sum(prompt in set(held_out_prompts(group)) for prompt in trace) > 60


def answer(prompt: str, digests, reason="best", response_s=1.0) -> RoutedAnswer:
    return RoutedAnswer(
        prompt=prompt,
        first_token_s=response_s / 2,
        response_s=response_s,
        routing=Routing(
            adapters=tuple(RoutedAdapter(digest=each, alias="", share=1.0) for each in digests),
            base_share=0.0 if digests else 1.0,
            reason=reason,
            decision_s=0.001,
            num_candidates=2,
        ),
    )


def test_the_loss_is_what_the_router_expects_against_its_best():
    cards = version_cards(demo_groups(), 1, seed=1)
    router = small_router()
    judge = QualityJudge(router, cards, [card.group for card in cards])
    prompt = cards[0].examples[0]
    assert judge.loss(answer(prompt, [cards[0].group])) == 0.0
    others = [judge.loss(answer(prompt, [card.group])) for card in cards[1:]]
    assert all(loss > TEMPERATURE for loss in others)
    assert judge.loss(answer(prompt, [], "base")) == 0.0

    row = summarise_answers(
        [
            answer(prompt, [cards[0].group], response_s=1.0),
            answer(prompt, [cards[1].group], "resident", response_s=3.0),
        ],
        judge,
    )
    assert row["requests"] == 2
    assert row["response_mean_ms"] == 2000.0
    assert row["first_token_mean_ms"] == 1000.0
    assert (row["resident"], row["base"], row["adapters_used"]) == (0.5, 0.0, 2)
    assert row["loss_mean_nats"] == pytest.approx(others[0] / 2, abs=1e-4)
    assert row["loss_max_nats"] == pytest.approx(others[0], abs=1e-4)
