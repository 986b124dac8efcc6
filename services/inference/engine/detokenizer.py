"""Turns tokens into text piece by piece, never sending what may have to be taken back.

Two things are held back: the bytes of an unfinished character, and text that may be the start of
a stop string. A stop string is found where it first ends, whatever the tokens' boundaries, and
neither it nor anything behind it is part of the output.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence

from services.inference.engine.sequence import SampledToken
from services.inference.engine.token_bytes import TokenBytes


class Detokenizer:
    """The text of one sequence. Feed tokens with `push`, collect with `take`, end with `finish`."""

    def __init__(self, token_bytes: TokenBytes, stop_strings: Sequence[str] = ()) -> None:
        self._token_bytes = token_bytes
        self._stop_strings = tuple(stop_strings)
        # Invalid bytes become U+FFFD by maximal subparts, as in the tokenizer's own decoder.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._is_at_start = token_bytes.strips_first_space
        self._text = ""
        """Decoded, not taken yet."""
        self._taken_length = 0
        self._unfinished: list[tuple[SampledToken, int]] = []
        """Tokens that end inside a character, with the output length before them."""
        self._tokens: deque[tuple[SampledToken, int, int]] = deque()
        """Tokens not taken yet, with the span of output characters they stand for."""
        self._is_finished = False
        self.stop_string: str | None = None
        """The stop string that ended the output."""

    def push(self, token: SampledToken) -> bool:
        """Adds a token; True when it completes a stop string, which finishes the output."""
        self._unfinished.append((token, self._length))
        self._append(self._decoder.decode(self._token_bytes[token.token_id]))
        if not self._decoder.getstate()[0]:
            self._settle()
        self._find_stop()
        return self.stop_string is not None

    def finish(self) -> None:
        """Ends the output: what was held back is output after all."""
        if self._is_finished:
            return
        self._is_finished = True
        self._append(self._decoder.decode(b"", final=True))
        self._settle()
        self._find_stop()

    def take(self) -> tuple[str, list[SampledToken]]:
        """Returns the text that is certain by now, and the tokens it completes."""
        num_held = 0 if self._is_finished else self._num_held()
        text = self._text[: len(self._text) - num_held]
        self._text = self._text[len(text) :]
        self._taken_length += len(text)
        tokens = []
        while self._tokens and self._tokens[0][2] <= self._taken_length:
            tokens.append(self._tokens.popleft()[0])
        return text, tokens

    @property
    def _length(self) -> int:
        return self._taken_length + len(self._text)

    def _append(self, text: str) -> None:
        if text and self._is_at_start:
            text = text.removeprefix(" ")
            self._is_at_start = False
        self._text += text

    def _settle(self) -> None:
        end = self._length
        self._tokens.extend((token, start, end) for token, start in self._unfinished)
        self._unfinished.clear()

    def _find_stop(self) -> None:
        ends = [
            (at + len(stop), at, stop)
            for stop in self._stop_strings
            if (at := self._text.find(stop)) >= 0
        ]
        if not ends or self.stop_string is not None:
            return
        _, at, self.stop_string = min(ends)
        self._text = self._text[:at]
        self._is_finished = True
        end = self._length
        spans = [*self._tokens, *((token, start, start) for token, start in self._unfinished)]
        # A token that lies wholly behind the cut is no part of the output.
        self._tokens = deque(
            (token, start, min(stop, end))
            for token, start, stop in spans
            if min(start + 1, stop) <= end
        )
        self._unfinished.clear()

    def _num_held(self) -> int:
        longest = 0
        for stop in self._stop_strings:
            for length in range(min(len(stop) - 1, len(self._text)), longest, -1):
                if self._text.endswith(stop[:length]):
                    longest = length
                    break
        return longest
