"""Writes card.json from training data: what the router knows of an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgelora.adapter_format.card import FILE, parse_card
from edgelora.toolchain.card_words import card_bytes, fitting_examples
from edgelora.toolchain.chat_data import Conversation


def routed_text(conversation: Conversation) -> str:
    """What an adapter is chosen by: the user's last message before the last answer."""
    last = max(i for i, message in enumerate(conversation) if message["role"] == "assistant")
    asked = [message["content"] for message in conversation[:last] if message["role"] == "user"]
    return asked[-1] if asked else ""


def write_routing_card(
    directory: Path, description: str, conversations: Sequence[Conversation]
) -> None:
    """Describes an adapter by prompts of its training data, spread evenly over it.

    The prompts go wherever the adapter goes: this is for data that may be read by others.
    """
    write_card_of(directory, description, [routed_text(one) for one in conversations])


def write_card_of(directory: Path, description: str, prompts: Sequence[str]) -> list[str]:
    """Describes an adapter by prompts, spread evenly over those given; returns the ones it quotes.

    Those that no card may hold are left out; without any, no card is written.
    """
    examples = fitting_examples(description, prompts)
    if examples:
        data = card_bytes(description, examples)
        parse_card(data)
        (directory / FILE).write_bytes(data)
    return examples
