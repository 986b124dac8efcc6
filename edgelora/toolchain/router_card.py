"""Writes card.json from training data: what the router knows of an adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgelora.adapter_format.card import (
    FILE,
    MAX_DESCRIPTION_CHARS,
    MAX_EXAMPLE_CHARS,
    MAX_EXAMPLES,
    parse_card,
)
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

    Those that are blank or too long are left out; without any, no card is written.
    """
    fitting = [
        text for text in dict.fromkeys(prompts) if text.strip() and len(text) <= MAX_EXAMPLE_CHARS
    ]
    count = min(MAX_EXAMPLES, len(fitting))
    examples = [fitting[index * len(fitting) // count] for index in range(count)]
    if not examples:
        return []
    card = {"description": description[:MAX_DESCRIPTION_CHARS], "examples": examples}
    data = (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode()
    parse_card(data)
    (directory / FILE).write_bytes(data)
    return examples
