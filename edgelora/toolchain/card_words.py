"""Words of a person, or from training data, in cards and reports: as text, whatever they spell."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from edgelora.adapter_format.card import (
    MAX_CARD_BYTES,
    MAX_DESCRIPTION_CHARS,
    MAX_EXAMPLE_CHARS,
    MAX_EXAMPLES,
    parse_card,
)
from edgelora.error_tree import AdapterRejectedError
from edgelora.toolchain.data_text import is_text
from edgelora.toolchain.errors import ToolchainError

_MARKUP = re.compile(r"[\\`*_\[\]<>|&~]|^[#+=-]")
_TURNING = frozenset(("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"))
"""Bidirectional classes of characters that reorder what stands beside them (CVE-2021-42574)."""


def plain_line(text: str) -> str:
    """One line of Markdown that shows `text` and nothing else: no markup, no HTML, no new line.

    Fits into a cell of a table. Characters that are not shown or reorder others become U+FFFD.
    """
    return _MARKUP.sub(lambda found: f"\\{found[0]}", _line(text))


def quoted_lines(texts: Sequence[str]) -> list[str]:
    """Each text as a quotation of one line, and an empty line after it."""
    # The code span keeps lists, links and mentions from being made of it.
    return [f"> {_code(text)}\n" for text in texts]


def yaml_text(text: str) -> str:
    """A text as a value of YAML, quoted where it is more than a word."""
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9.+-]*", text) else json.dumps(text)


def check_card_words(
    name: str,
    description: str,
    licence: str,
    permissions: Sequence[str],
    examples: Sequence[str],
) -> None:
    """Raises ToolchainError for what no card may hold; else a run would find out at its end."""
    for flag, text in (
        ("name", name),
        ("licence", licence),
        *(("permission", one) for one in permissions),
    ):
        if not text.strip() or not text.isprintable():
            raise ToolchainError(f"--{flag} must be one line of printable text")
    if description and not is_text(description):
        raise ToolchainError("--description must be text of whole characters")
    if not all(map(is_text, examples)):
        raise ToolchainError("--example must be text that is not empty, of whole characters")
    try:
        parse_card(card_bytes(description, examples or ("-",)))
    except AdapterRejectedError as error:
        raise ToolchainError(f"--description and --example: {error.message}") from error


def card_bytes(description: str, examples: Sequence[str]) -> bytes:
    """The bytes of a card.json."""
    card = {"description": description[:MAX_DESCRIPTION_CHARS], "examples": examples}
    return (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode()


def fitting_examples(description: str, texts: Sequence[str]) -> list[str]:
    """Of texts that a card may hold those it quotes, spread evenly over all, each once.

    As many as its limits of number and size allow.
    """
    lines = (text.replace("\r\n", "\n") for text in texts)
    fitting = [text for text in dict.fromkeys(lines) if _fits(text)]
    count = min(MAX_EXAMPLES, len(fitting))
    while count:
        chosen = [fitting[index * len(fitting) // count] for index in range(count)]
        if len(card_bytes(description, chosen)) <= MAX_CARD_BYTES:
            return chosen
        count -= 1
    return []


def _fits(text: str) -> bool:
    if not is_text(text) or len(text) > MAX_EXAMPLE_CHARS:
        return False
    return all(one in "\n\t" or unicodedata.category(one) != "Cc" for one in text)


def _line(text: str) -> str:
    return "".join("\ufffd" if _is_hidden(one) else one for one in " ".join(text.split()))


def _is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or unicodedata.bidirectional(character) in _TURNING
    )


def _code(text: str) -> str:
    line = _line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}"
