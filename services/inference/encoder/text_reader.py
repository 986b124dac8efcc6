"""Text to an encoder's token ids. What a user writes never becomes a special token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.inference.low_priority import lower_thread_priority

FILE_NAME = "tokenizer.json"
_INLINE_CHARS = 2048
"""Urgent texts of so many characters together are read on the event loop, in about a
millisecond."""

_CHARS_PER_TOKEN = 16
"""No usual text has more."""
_BLANK = re.compile(r"[ \t\n\r]")


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, special tokens added."""

    token_ids: NDArray[np.int32]
    """At most as many as the encoder's context holds."""
    is_cut: bool
    """Whether it was longer."""


class TextReader:
    """Tokenises. A thread does so with long texts, another with those that nobody waits for."""

    def __init__(self, document: str, max_context_tokens: int) -> None:
        """`document` is a tokenizer.json. Raises ValueError when it can not be used."""
        try:
            self._tokenizer = Tokenizer.from_str(document)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{FILE_NAME} can not be used: prepare the model again") from error
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_context_tokens)
        self._first_chars = max_context_tokens * _CHARS_PER_TOKEN
        self._urgent_thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._patient_thread = ThreadPoolExecutor(
            1, thread_name_prefix="patient-tokenizer", initializer=lower_thread_priority
        )

    @classmethod
    def load(cls, directory: Path, max_context_tokens: int) -> TextReader:
        """Reads a prepared model directory. Raises FileNotFoundError or ValueError."""
        document = (directory / FILE_NAME).read_text(encoding="utf-8")
        return cls(document, max_context_tokens)

    def read_one(self, text: str) -> ReadText:
        """The ids of one text."""
        # What lies far beyond the context is never looked at: the time a text takes is bounded.
        num_chars = self._first_chars
        while True:
            part = _whole_words(text, num_chars)
            # One that is read alone would keep every other thread from running meanwhile.
            (encoding,) = self._tokenizer.encode_batch_fast([part])
            if encoding.overflowing or len(part) == len(text):
                break
            num_chars *= 2
        return ReadText(np.array(encoding.ids, dtype=np.int32), bool(encoding.overflowing))

    async def read(self, texts: Sequence[str], *, is_urgent: bool = True) -> list[ReadText]:
        """The ids of each text."""
        if is_urgent and sum(map(len, texts)) <= _INLINE_CHARS:
            return [self.read_one(text) for text in texts]
        thread = self._urgent_thread if is_urgent else self._patient_thread
        loop = asyncio.get_running_loop()
        # One after another: requests take turns, and one that is cancelled stops.
        return [await loop.run_in_executor(thread, self.read_one, text) for text in texts]

    def close(self) -> None:
        """Ends the threads."""
        for thread in (self._urgent_thread, self._patient_thread):
            thread.shutdown(wait=False, cancel_futures=True)


def _whole_words(text: str, num_chars: int) -> str:
    """The text up to a blank, of about so many characters; all of it where there is no blank."""
    end = _BLANK.search(text, num_chars)
    return text if end is None else text[: end.start()]
