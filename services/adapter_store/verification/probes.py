"""Token sequences an adapter is measured on: the built-in texts, and an adapter's own probe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from edgelora.adapter_format.strict_json import parse_object
from edgelora.error_tree import AdapterRejectedError

FILE = "probe.jsonl"
MAX_PROBE_BYTES = 64 << 10
MAX_LINES = 64
MAX_LINE_TOKENS = 1024
MAX_TOKENS = 1024
"""Of all lines together: what a registration may cost in computing, and others wait for."""

_KEYS = {"prompt", "answer"}
_SURROGATE = re.compile("[\ud800-\udfff]")

Tokenize = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A text of which the first tokens are given and the others are foretold one by one."""

    token_ids: Sequence[int]
    num_given: int
    """At least 1 and below the number of tokens."""


def built_in_sequences(texts: Iterable[Sequence[int]], given: int) -> tuple[TokenSequence, ...]:
    """The built-in texts as token ids; those with no token behind the given ones are left out."""
    return tuple(TokenSequence(ids, given) for ids in texts if len(ids) > given)


def read_probe(data: bytes) -> tuple[tuple[str, str], ...]:
    """Prompt and answer of every line of a probe.jsonl.

    The texts are raw: what the model reads, control tokens spelled out. Raises
    AdapterRejectedError with `field` "probe".
    """
    if len(data) > MAX_PROBE_BYTES:
        raise _refuse(f"{len(data)} bytes, the limit is {MAX_PROBE_BYTES}")
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not 1 <= len(lines) <= MAX_LINES:
        raise _refuse(f"{len(lines)} lines, allowed are 1 to {MAX_LINES}")
    return tuple(_line(line, number) for number, line in enumerate(lines, start=1))


def probe_sequences(
    lines: Iterable[tuple[str, str]], tokenize: Tokenize, max_line_tokens: int
) -> tuple[TokenSequence, ...]:
    """The lines as tokens; prompt and answer are tokenised each on its own, as when serving.

    Raises AdapterRejectedError when the lines are too long or one has no token to be foretold.
    """
    sequences = []
    for number, (prompt, answer) in enumerate(lines, start=1):
        given, foretold = tokenize(prompt), tokenize(answer)
        if not given or not foretold:
            raise _refuse(f"line {number}: prompt and answer need a token each")
        if len(given) + len(foretold) > max_line_tokens:
            raise _refuse(
                f"line {number} has {len(given) + len(foretold)} tokens, the limit is "
                f"{max_line_tokens}: shorten it"
            )
        sequences.append(TokenSequence(given + foretold, len(given)))
    num_tokens = sum(len(sequence.token_ids) for sequence in sequences)
    if num_tokens > MAX_TOKENS:
        raise _refuse(f"{num_tokens} tokens, the limit is {MAX_TOKENS}: leave lines out")
    return tuple(sequences)


def _line(line: bytes, number: int) -> tuple[str, str]:
    try:
        document = parse_object(line, field=f"line {number}")
    except AdapterRejectedError as error:
        raise _refuse(error.message) from None
    if document.keys() != _KEYS or not all(
        isinstance(text, str) and text for text in document.values()
    ):
        raise _refuse(f'line {number} has to be {{"prompt": text, "answer": text}}')
    if any(_SURROGATE.search(text) for text in document.values()):
        raise _refuse(f"line {number} has half of a surrogate pair: write characters")
    return document["prompt"], document["answer"]


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE}: {why}", field="probe")
