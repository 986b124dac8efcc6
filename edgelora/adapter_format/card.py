"""card.json: what an adapter is for, in words that a router and people can read.

It says nothing about what an adapter computes, and is no part of its digest.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from edgelora.adapter_format.strict_json import parse_object
from edgelora.error_tree import AdapterRejectedError

FILE = "card.json"
MAX_CARD_BYTES = 64 << 10
MAX_DESCRIPTION_CHARS = 500
MAX_EXAMPLES = 64
MAX_EXAMPLE_CHARS = 500

_KEYS = {"description", "examples"}
_PLAIN_CONTROLS = "\n\t"


@dataclass(frozen=True, slots=True)
class AdapterCard:
    """A card, checked."""

    description: str
    """May be empty."""
    examples: tuple[str, ...]
    """1 to 64 prompts the adapter is meant for."""


def parse_card(data: bytes) -> AdapterCard:
    """Reads `{"description": text, "examples": [prompt, ...]}`, and nothing else.

    Raises AdapterRejectedError with `field` "card", or "card." and the key at fault.
    """
    if not data:
        raise _refuse("is empty: describe the adapter in it, or remove it")
    if len(data) > MAX_CARD_BYTES:
        raise _refuse(f"has {len(data)} bytes, the limit is {MAX_CARD_BYTES}")
    try:
        document = parse_object(data, field=FILE)
    except AdapterRejectedError as error:
        raise AdapterRejectedError(error.message, field="card") from None
    if document.keys() != _KEYS:
        raise _refuse('has to be {"description": text, "examples": [prompt, ...]}, nothing more')
    examples = document["examples"]
    if not isinstance(examples, list) or not 1 <= len(examples) <= MAX_EXAMPLES:
        raise _refuse(f"has to be a list of 1 to {MAX_EXAMPLES} prompts", "examples")
    return AdapterCard(
        description=_text(document["description"], "description", MAX_DESCRIPTION_CHARS),
        examples=tuple(_example(value, number) for number, value in enumerate(examples, start=1)),
    )


def _example(value: Any, number: int) -> str:
    text = _text(value, "examples", MAX_EXAMPLE_CHARS, f"prompt {number} ")
    if not text.strip():
        raise _refuse(f"prompt {number} is blank: write it, or leave it out", "examples")
    return text


def _text(value: Any, key: str, max_chars: int, where: str = "") -> str:
    if not isinstance(value, str) or len(value) > max_chars:
        raise _refuse(f"{where}has to be a text of at most {max_chars} characters", key)
    for character in value:
        category = unicodedata.category(character)
        if category == "Cs":
            raise _refuse(f"{where}has half of a surrogate pair: write characters", key)
        if category == "Cc" and character not in _PLAIN_CONTROLS:
            raise _refuse(f"{where}has a control character other than line break and tab", key)
    return value


def _refuse(why: str, key: str | None = None) -> AdapterRejectedError:
    if key is None:
        return AdapterRejectedError(f"{FILE} {why}", field="card")
    return AdapterRejectedError(f"{FILE}: {key}: {why}", field=f"card.{key}")
