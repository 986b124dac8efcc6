"""The demo adapters' cards: what a node takes, and nothing that the evaluation holds back."""

import json
from pathlib import Path

import pytest

from edgelora.adapter_format.card import parse_card

DEMO = Path(__file__).resolve().parents[3] / "demo"


def plain(prompt):
    return " ".join(prompt.lower().split()).rstrip(".?!")


@pytest.mark.parametrize("name", ["email", "home", "recipes", "tutor"])
def test_card_holds_no_held_out_prompt(name):
    card = parse_card((DEMO / name / "card.json").read_bytes())
    assert card.description
    assert len(card.examples) >= 12
    held_out = {
        plain(message["content"])
        for line in (DEMO / name / "data" / "test.jsonl").read_text().splitlines()
        for message in json.loads(line)["messages"]
        if message["role"] == "user"
    }
    assert len(held_out) > 20
    assert not {plain(prompt) for prompt in card.examples} & held_out
