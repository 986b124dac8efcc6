"""What a request for classes or embeddings may hold: checked by the gateway and by the worker.

As generation_limits.py: pure, and nothing the caller wrote is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.errors import InvalidRequestError

MAX_TEXTS = 64
MAX_TEXT_CHARS = 32768
"""Far more than an encoder's context; what is beyond that is cut."""


def check_texts(texts: Sequence[str]) -> None:
    """Checks how many texts there are and how long each is. Raises InvalidRequestError."""
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise InvalidRequestError(f"texts must hold 1 to {MAX_TEXTS} texts", field="texts")
    for index, text in enumerate(texts):
        if not 1 <= len(text) <= MAX_TEXT_CHARS:
            field = f"texts[{index}]"
            rule = f"must have 1 to {MAX_TEXT_CHARS} characters"
            raise InvalidRequestError(f"{field} {rule}", field=field)


def check_top_labels(count: int) -> None:
    """Checks how many labels are wanted for each text. Raises InvalidRequestError."""
    if count < 1:
        raise InvalidRequestError("top_labels must be at least 1", field="top_labels")
