"""What an answer may go on with: one grammar, as far as one sequence has come in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgelora.errors import InvalidRequestError

if TYPE_CHECKING:
    from llguidance import LLMatcher


class TokenConstraint:
    """Gives the mask of the next token and takes the token. Owned by one thread at a time.

    It follows the tokens, not the KV cache: a sequence that lost its blocks goes on where it was.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int, field: str) -> None:
        """`field`: where the grammar stands in the request, for errors."""
        self._matcher = matcher
        self._field = field
        self._mask = np.zeros(-(-vocab_size // 32), dtype=np.uint32)
        self._place = self._mask.ctypes.data, self._mask.nbytes
        self._is_current = False

    def mask(self) -> NDArray[np.uint32]:
        """The tokens that may come next: bit i % 32 of word i // 32; valid until the next token.

        An end token is among them only where the output is complete.
        Raises InvalidRequestError when the grammar turns out to be too complex.
        """
        if not self._is_current:
            self._matcher.unsafe_compute_mask_ptr(*self._place)
            self._check()
            self._is_current = True
        return self._mask

    def accept(self, token_id: int) -> bool:
        """Takes the token that was chosen; True when nothing may follow it.

        Raises InvalidRequestError as `mask` does.
        """
        self._is_current = False
        self._matcher.consume_token(token_id)
        self._check()
        return self._matcher.is_stopped()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise InvalidRequestError(
                f"{self._field} became too complex while the answer was written: make it simpler",
                field=self._field,
            )
