"""Distinct random prompts of an exact number of tokens.

Every word is one token of the model's own vocabulary, so a prompt of n words is n tokens; prompts
share no prefix, so a prefix cache can not flatter a figure.
"""

from __future__ import annotations

import random
import re
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from bench.result import BenchError

_WORD = re.compile(r" [a-z]{3,10}")
_MIN_WORDS = 500


class PromptWriter:
    """Writes prompts for one prepared model."""

    def __init__(self, model_directory: Path) -> None:
        path = model_directory / "tokenizer.json"
        if not path.is_file():
            raise BenchError(f"{path} is missing: run `edgelora model prepare` first")
        self._tokenizer = Tokenizer.from_file(str(path))

    @cached_property
    def words(self) -> list[str]:
        """Words, each with its leading blank, that are one token wherever they stand."""
        words = []
        for token_id in range(self._tokenizer.get_vocab_size()):
            text = self._tokenizer.decode([token_id], skip_special_tokens=False)
            if _WORD.fullmatch(text) and self.count_tokens(text) == 1:
                words.append(text)
        if len(words) < _MIN_WORDS:
            raise BenchError("the model's vocabulary has too few plain words for random prompts")
        return words

    def write(self, num_tokens: int, seed: str) -> str:
        """Returns a prompt of exactly `num_tokens` tokens; another one for each seed."""
        draw = random.Random(seed)
        return "".join(draw.choice(self.words) for _ in range(num_tokens))

    def count_tokens(self, text: str) -> int:
        """Returns how many tokens a text is, without special ones."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
