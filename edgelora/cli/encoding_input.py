"""The texts of `classify` and `embed`: arguments, or the lines of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from edgelora.cli.errors import CliError
from services.chassis.encoding_limits import MAX_TEXTS


def batches(arguments: Sequence[str], most: int = MAX_TEXTS) -> Iterator[list[str]]:
    """Yields the texts, at most `most` at a time; empty lines are left out.

    Standard input is read while it comes. Raises CliError when there is nothing to read.
    """
    if not arguments and sys.stdin.isatty():
        raise CliError("there is no text: give it as arguments, or a line each on standard input")
    texts = iter(arguments) if arguments else (line.strip() for line in sys.stdin)
    present = (text for text in texts if text)
    while batch := list(islice(present, most)):
        yield batch
