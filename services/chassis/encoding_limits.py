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
    if number > MAX_TOP_LABELS:
        raise _invalid("top_labels", f"must be at most {MAX_TOP_LABELS}")
    if number * num_texts > MAX_TOLD_LABELS:
        raise _invalid(
            "top_labels",
            f"must be at most {MAX_TOLD_LABELS // num_texts} with {num_texts} texts: send fewer",
        )


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
