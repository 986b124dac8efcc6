"""What a request to an encoder may hold: the one list, checked by the gateway and by the worker."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.errors import InvalidRequestError

MAX_TEXTS = 64
MAX_TEXT_CHARS = 100_000
"""Far more than any encoder reads: what is longer was sent by mistake."""
MAX_TOP_LABELS = 1000


def check_texts(texts: Sequence[str]) -> None:
    """Checks what is to be encoded. Raises InvalidRequestError, which repeats nothing of it."""
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise _invalid("texts", f"must hold 1 to {MAX_TEXTS} texts: send the rest by itself")
    for index, text in enumerate(texts):
        if not 1 <= len(text) <= MAX_TEXT_CHARS:
            raise _invalid(f"texts[{index}]", f"must have 1 to {MAX_TEXT_CHARS} characters")


def check_top_labels(number: int) -> None:
    """Checks how many labels are asked for. Raises InvalidRequestError."""
    if number > MAX_TOP_LABELS:
        raise _invalid("top_labels", f"must be at most {MAX_TOP_LABELS}")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
