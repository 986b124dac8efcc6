"""Hashed character and word n-grams of a text, word by word.

The hashing trick of Joulin et al., "Bag of Tricks for Efficient Text Classification"
(arXiv:1607.01759). Every step is arithmetic modulo 2**64, so that a text has the same buckets on
every machine and in every process.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_TEXT_LENGTH = 4096
"""Characters of a text that count, its first ones."""
MAX_WORDS = 1024
CHARACTER_SIZES = (2, 3, 4, 5)
"""Lengths of the character n-grams; they run over the borders of words."""
_WORD_SIZES = (1, 2)
_WORD = re.compile(r"\w+|[^\w\s]")

with np.errstate(over="ignore"):
    _POWERS = np.cumprod(
        np.full(2 * MAX_TEXT_LENGTH + 8, 0x100000001B3, np.uint64), dtype=np.uint64
    )


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """The buckets of a text."""

    buckets: NDArray[np.int32]
    """Of every n-gram, those of a word side by side; int32 [n-grams]."""
    starts: NDArray[np.int64]
    """Where each word's n-grams begin; int64 [words]. There is always one word."""


def text_features(text: str, num_buckets: int) -> TextFeatures:
    """Hashes a text: NFKC, lower case, words and punctuation marks apart.

    A word's n-grams are itself, itself with the next word, and the character n-grams that begin in
    it or in the blank before it.
    """
    words = _words(text)
    characters = np.frombuffer(
        "".join(f" {word}" for word in words).encode("utf-32-le", "surrogatepass"), "<u4"
    ).astype(np.uint64)
    starts = np.concatenate(([0], np.cumsum([len(word) + 1 for word in words])[:-1]))
    length = len(characters)
    word_of = np.zeros(length, np.int64)
    word_of[starts[1:]] = 1
    word_of = np.cumsum(word_of)

    per_character, per_word = len(CHARACTER_SIZES), len(_WORD_SIZES)
    buckets = np.empty(length * per_character + len(words) * per_word, np.int32)
    first = starts * per_character + np.arange(len(words)) * per_word
    # A zero after the text marks its end, in every n-gram that reaches it.
    padded = np.concatenate((characters, np.zeros(CHARACTER_SIZES[-1], np.uint64)))
    at = np.arange(length) * per_character + (word_of + 1) * per_word
    grams = np.zeros(length, np.uint64)
    for position in range(CHARACTER_SIZES[-1]):
        grams += padded[position : position + length] * _POWERS[position]
        if position + 1 in CHARACTER_SIZES:
            buckets[at + CHARACTER_SIZES.index(position + 1)] = _bucket(
                grams, position + 1, num_buckets
            )

    places = np.arange(length) - starts[word_of]
    whole = np.add.reduceat(characters * _POWERS[places], starts)
    following = np.append(whole[1:], np.uint64(0))
    buckets[first] = _bucket(whole, 100, num_buckets)
    buckets[first + 1] = _bucket(whole * _POWERS[1] + following, 101, num_buckets)
    return TextFeatures(buckets, first)


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text[:MAX_TEXT_LENGTH]).lower()[:MAX_TEXT_LENGTH]
    return _WORD.findall(plain)[:MAX_WORDS] or [""]


def _bucket(values: NDArray[np.uint64], kind: int, num_buckets: int) -> NDArray[np.int32]:
    """Mixes (the finaliser of SplitMix64, Steele et al., OOPSLA 2014) and cuts to a bucket."""
    mixed = values + np.uint64(kind * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(num_buckets)).astype(np.int32)
