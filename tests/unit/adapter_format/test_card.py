"""card.json as hostile input."""

import json

import pytest

from edgelora.adapter_format.card import MAX_CARD_BYTES, AdapterCard, parse_card
from edgelora.errors import AdapterRejectedError


def card(**changes):
    return json.dumps({"description": "Writes letters.", "examples": ["Write a letter"]} | changes)


def test_card_is_read_as_written():
    text = "Schreib Anna:\n\tdie Heizung ist kaputt \N{FAMILY} 👩‍👧"
    data = card(examples=[text, "x" * 500], description="").encode()
    assert parse_card(data) == AdapterCard("", (text, "x" * 500))
    most = card(description="d" * 500, examples=["p"] * 64).encode()
    assert len(parse_card(most).examples) == 64


HOSTILE = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"description": "\xff", "examples": ["x"]}',
    "a list": b"[]",
    "a byte order mark": b"\xef\xbb\xbf" + card().encode(),
    "a key more": card(language="en").encode(),
    "a key less": b'{"examples": ["x"]}',
    "a key twice": b'{"description": "", "examples": ["x"], "examples": ["y"]}',
    "NaN": b'{"description": NaN, "examples": ["x"]}',
    "deep nesting": b'{"description": "", "examples": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "a huge number": b'{"description": ' + b"9" * 60_000 + b', "examples": ["x"]}',
    "more bytes than allowed": card().encode() + b" " * MAX_CARD_BYTES,
    "a description that is a number": card(description=1).encode(),
    "a description that is null": card(description=None).encode(),
    "a long description": card(description="d" * 501).encode(),
    "no examples": card(examples=[]).encode(),
    "examples as a text": card(examples="Write").encode(),
    "examples as an object": card(examples={"0": "Write"}).encode(),
    "too many examples": card(examples=["p"] * 65).encode(),
    "a long example": card(examples=["x", "p" * 501]).encode(),
    "an example that is true": card(examples=["x", True]).encode(),
    "an example in an example": card(examples=[["x"]]).encode(),
    "an empty example": card(examples=["x", ""]).encode(),
    "a blank example": card(examples=[" \n\t\u3000"]).encode(),
    "a NUL": card(examples=["a\0b"]).encode(),
    "an escape sequence": card(description="\x1b[2J").encode(),
    "a C1 control": card(examples=["\x9b2J"]).encode(),
    "half of a surrogate pair": b'{"description": "\\ud800", "examples": ["x"]}',
    "the other half": b'{"description": "", "examples": ["x\\udfff"]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_card_is_refused_with_the_field_and_nothing_of_it(name):
    with pytest.raises(AdapterRejectedError, match=r"^card\.json") as caught:
        parse_card(HOSTILE[name])
    assert caught.value.field in ("card", "card.description", "card.examples")
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()


def test_refusal_names_the_prompt_at_fault():
    with pytest.raises(AdapterRejectedError, match="prompt 2"):
        parse_card(HOSTILE["a long example"])
