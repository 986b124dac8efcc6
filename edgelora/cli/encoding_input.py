"""The texts of `classify` and `embed`: arguments, or the lines of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from edgelora.cli.errors import CliError
from edgelora.cli.stdin_lines import stdin_lines
from services.chassis.encoding_limits import MAX_TEXTS


def batches(arguments: Sequence[str], most: int = MAX_TEXTS) -> Iterator[list[str]]:
    """Yields the texts, at most `most` at a time; empty lines are left out.

    Standard input is read while it comes. Raises CliError when there is no text.
    """
    if arguments:
        texts = iter(arguments)
    else:
        texts = iter(()) if sys.stdin.isatty() else (line.strip() for line in stdin_lines())
    present = (text for text in texts if text)
    is_any = False
    while batch := list(islice(present, most)):
        is_any = True
        yield batch
    if not is_any:
        raise CliError("there is no text: give it as arguments, or a line each on standard input")
