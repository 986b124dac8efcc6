"""What is written in cards and reports is shown as text, whatever it spells."""

from __future__ import annotations

import json

import pytest
from markdown_it import MarkdownIt

from edgelora.adapter_format.card import MAX_CARD_BYTES, parse_card
from edgelora.toolchain.card_words import (
    card_bytes,
    check_card_words,
    fitting_examples,
    plain_line,
    quoted_lines,
    yaml_text,
)
from edgelora.toolchain.errors import ToolchainError

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<!-- all that follows",
    "<details><script>x</script>",
    "![seen](http://tracker.invalid/a.png) [node](http://other.invalid)",
    "a | permissions | commands: all |",
    "one\n\n# Licence: free\n\n| a | b |",
    "# heading",
    "- list\n- of two",
    "---",
    "```\ncode",
    "`` ` `` ``` x",
    "**bold** _it_ ~~gone~~ \\",
    "&lt;b&gt; <http://auto.invalid>",
)


def _kinds(markdown: str) -> list[str]:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(markdown)
    return [one.type for one in tokens] + [
        child.type for one in tokens for child in one.children or ()
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_no_markup(text: str) -> None:
    assert _kinds(plain_line(text)) == ["paragraph_open", "inline", "paragraph_close", "text"]
    in_table = _kinds(f"| a | b |\n|---|---|\n| {plain_line(text)} | c |")
    assert in_table.count("td_open") == 2 and not {"html_inline", "image"} & set(in_table)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_quotation_holds_one_span_of_code(text: str) -> None:
    (line,) = quoted_lines([text])
    assert _kinds(line) == [
        *("blockquote_open", "paragraph_open", "inline", "paragraph_close", "blockquote_close"),
        "code_inline",
    ]


def test_what_reorders_or_hides_is_shown_as_such() -> None:
    assert plain_line("a\u202eb\x1b[2J\ud800") == "a\ufffdb\ufffd\\[2J\ufffd"
    assert quoted_lines(["a\u2066b"]) == ["> ` a\ufffdb `\n"]


def test_a_value_of_yaml_is_one_value() -> None:
    assert yaml_text("apache-2.0") == "apache-2.0"
    assert json.loads(yaml_text("MIT: free")) == "MIT: free"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a\udcff"},
        {"name": "a\nb"},
        {"licence": "MIT\nbase_model: other"},
        {"permissions": ("commands: none", "\x1b[2J")},
        {"description": "a\udcff"},
        {"description": "a\x07"},
        {"examples": ("a" * 501,)},
        {"examples": ("a\x07",)},
        {"examples": (" ",)},
        {"examples": tuple(f"{number}" for number in range(65))},
        {"examples": tuple(f"{number:03}" + "\u6f22" * 480 for number in range(64))},
    ],
)
def test_what_no_card_may_hold_is_refused_before_a_run(changes: dict[str, object]) -> None:
    words = {"name": "a", "description": "", "licence": "MIT", "permissions": (), "examples": ()}
    check_card_words(**words)  # type: ignore[arg-type]
    with pytest.raises(ToolchainError, match="--"):
        check_card_words(**words | changes)  # type: ignore[arg-type]


def test_training_texts_that_no_card_may_hold_are_passed_over() -> None:
    texts = ["bell\x07", "half\ud800", " ", "a" * 501, "carriage\rreturn", "good", "good", "a\r\nb"]
    assert fitting_examples("", texts) == ["good", "a\nb"]
    assert fitting_examples("", texts[:5]) == []


def test_as_many_examples_as_the_size_of_a_card_allows() -> None:
    texts = [f"{number:03}" + "\u6f22" * 480 for number in range(64)]
    chosen = fitting_examples("what it is for", texts)
    data = card_bytes("what it is for", chosen)
    assert 40 < len(chosen) < 64 and len(data) <= MAX_CARD_BYTES
    assert parse_card(data).examples == tuple(chosen)
