"""What counts as a text in a data file."""

from __future__ import annotations

from typing import TypeGuard


def is_text(value: object) -> TypeGuard[str]:
    """Whether a JSON value is text that can be learnt from: not empty, and of whole characters.

    JSON can spell half a character, a lone surrogate, which no encoding and no tokenizer takes.
    """
    if not isinstance(value, str) or not value.strip():
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
