"""Byte-level BPE tokenizers, by the way they split text (llama.cpp, src/llama-vocab.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Contractions, words, numbers, punctuation, white space; `%s` says how long a number may be."""


def byte_level_tokenizer(tokens: Sequence[str], merges: Sequence[str], split: str) -> Tokenizer:
    """Builds a tokenizer without special tokens.

    `merges`: two parts with a space between, in order. `split`: a key of `PRE_TOKENIZERS`. Raises
    Exception when a merge is of parts that are no tokens.
    """
    model = models.BPE(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[(left, right) for left, _, right in (merge.partition(" ") for merge in merges)],
        ignore_merges=split == "llama-bpe",
    )
    tokenizer = Tokenizer(model)
    if split == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[split]
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _bytes(*, use_regex: bool) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def _words(number_length: str) -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(_WORDS % number_length), behavior="isolated")
    return pre_tokenizers.Sequence([split, _bytes(use_regex=False)])


PRE_TOKENIZERS = {
    "gpt-2": _bytes(use_regex=True),
    # SmolLM's vocabulary was trained with every digit a token of its own.
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), _bytes(use_regex=True)]
    ),
    "qwen2": _words(""),
    "llama-bpe": _words("{1,3}"),
}
