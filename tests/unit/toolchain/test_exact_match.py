"""Exact match compares meaning, not spelling of JSON."""

from __future__ import annotations

import pytest

from edgelora.toolchain.exact_match import same_json

EXPECTED = '{"intent":"HassTurnOn","slots":{"area":"kitchen","brightness":40}}'


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (EXPECTED, True),
        ('{ "slots": {"brightness": 40, "area": "kitchen"}, "intent": "HassTurnOn" }', True),
        (EXPECTED.replace("40", '"40"'), False),
        (EXPECTED.replace("kitchen", "office"), False),
        (EXPECTED.replace("TurnOn", "TurnOff"), False),
        (EXPECTED.replace(',"brightness":40', ""), False),
        (EXPECTED + "}", False),
        ("Sure, the light is on.", False),
        ("", False),
    ],
)
def test_same_json(answer: str, right: bool) -> None:
    assert same_json(answer, EXPECTED) is right
