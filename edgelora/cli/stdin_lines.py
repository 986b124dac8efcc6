"""Standard input, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from edgelora.cli.errors import CliError


def stdin_lines() -> Iterator[str]:
    """Yields each line while it comes. Raises CliError where it is no text."""
    try:
        for line in sys.stdin:
            line.encode()  # in some locales Python lets any byte pass, as half a surrogate pair
            yield line
    except UnicodeError:
        raise CliError("standard input is not UTF-8 text: convert it to UTF-8") from None
