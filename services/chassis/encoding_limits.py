"""What a request to an encoder may hold: the one list, checked by the gateway and by the worker."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.errors import InvalidRequestError

MAX_TEXTS = 64
MAX_TEXT_CHARS = 100_000
"""Far more than any encoder reads: what is longer was sent by mistake."""
MAX_TOP_LABELS = 1000
MAX_TOLD_LABELS = 5000
"""Of all texts of a request together: as many of the longest fit into one message."""


def check_texts(texts: Sequence[str]) -> None:
    """Checks what is to be encoded. Raises InvalidRequestError, which repeats nothing of it."""
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise _invalid("texts", f"must hold 1 to {MAX_TEXTS} at once: send the rest by itself")
    for index, text in enumerate(texts):
        if not 1 <= len(text) <= MAX_TEXT_CHARS:
            raise _invalid(f"texts[{index}]", f"must have 1 to {MAX_TEXT_CHARS} characters")


def check_top_labels(number: int, num_texts: int) -> None:
    """Checks how many labels are asked for of each text. Raises InvalidRequestError."""
    most = min(MAX_TOP_LABELS, MAX_TOLD_LABELS // max(num_texts, 1))
    if number > most:
        raise _invalid(
            "top_labels", f"must be at most {most} of {num_texts} texts: send fewer at once"
        )


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
