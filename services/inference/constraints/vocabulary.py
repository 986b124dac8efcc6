"""The model's vocabulary as llguidance needs it: the bytes each token adds to the output.

They are those of our own detokenizer. A token that adds nothing to the output is a control token:
no text of a grammar holds it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from llguidance import LLTokenizer, TokenizerWrapper

    from services.inference.tokenizer import TextTokenizer

_CONTROL = b"\xff"
"""Begins no UTF-8 character; llguidance's mark of a control token."""
_STRING_CHARACTER = r'[^"\\\x00-\x1F\x7F]'
_SLICES = [_STRING_CHARACTER + count for count in ("{1,4}", "{1,8}", "{1,16}", "{1,30}", "+")]
"""Sets of tokens whose masks are kept: inside a JSON string the largest that fits into what is left
of it need not be gone through, which takes a tenth of the time."""

_MAX_FORCED_CHARS = 256
"""Of a text that must follow as it is, so many are encoded: only its first token is used, again at
every step, and the whole could take longer than a step of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputVocabulary:
    """Tokens by id."""

    tokens: Sequence[bytes]
    """Empty: no token of this id, or one that can not be chosen."""
    control_ids: Sequence[int]
    eos_token_ids: Sequence[int]
    """Chosen where a grammar may end; at least one."""

    @classmethod
    def of(
        cls, tokenizer: TextTokenizer, vocab_size: int, eos_token_ids: frozenset[int]
    ) -> OutputVocabulary:
        """`vocab_size`: of the model, which may have more ids than the tokenizer."""
        tokens = [tokenizer.token_bytes[token_id] for token_id in range(vocab_size)]
        control_ids = []
        for token_id, spelling in tokenizer.control_tokens_by_id.items():
            if token_id < vocab_size and not tokens[token_id]:
                tokens[token_id] = _CONTROL + spelling.encode()
                control_ids.append(token_id)
        return cls(
            tokens=tokens,
            control_ids=control_ids,
            eos_token_ids=sorted(each for each in eos_token_ids if each < vocab_size),
        )

    def open(
        self, encode: Callable[[str], list[int]] | None = None, *, is_fast: bool = True
    ) -> LLTokenizer:
        """Makes llguidance's form of it, in about a tenth of a second.

        `encode`: ids of a text as the model writes it; without it forced text is split greedily.
        `is_fast`: with what makes masks of JSON strings quick, which takes 20 MB more.
        """
        from llguidance import LLTokenizer

        source = _TokenizerSource(self, encode)
        made = LLTokenizer(
            cast("TokenizerWrapper", source),  # it reads nothing but the attributes
            eos_token=list(self.eos_token_ids),
            slices=_SLICES if is_fast else [],
        )
        source.opened = made
        return made

    def to_bytes(self) -> bytes:
        """For another process."""
        head = (len(self.tokens), len(self.control_ids), len(self.eos_token_ids))
        return b"".join(
            [
                struct.pack("<3I", *head),
                struct.pack(f"<{len(self.control_ids)}I", *self.control_ids),
                struct.pack(f"<{len(self.eos_token_ids)}I", *self.eos_token_ids),
                struct.pack(f"<{len(self.tokens)}H", *map(len, self.tokens)),
                *self.tokens,
            ]
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> OutputVocabulary:
        """What `to_bytes` made."""
        num_tokens, num_controls, num_ends = struct.unpack_from("<3I", data)
        at = 12
        control_ids = struct.unpack_from(f"<{num_controls}I", data, at)
        at += 4 * num_controls
        eos_token_ids = struct.unpack_from(f"<{num_ends}I", data, at)
        at += 4 * num_ends
        lengths = struct.unpack_from(f"<{num_tokens}H", data, at)
        return cls(
            tokens=list(_split(data, at + 2 * num_tokens, lengths)),
            control_ids=control_ids,
            eos_token_ids=eos_token_ids,
        )


def _split(data: bytes, at: int, lengths: Sequence[int]) -> Iterator[bytes]:
    for length in lengths:
        yield data[at : at + length]
        at += length


class _TokenizerSource:
    """The attributes llguidance reads, and how it has a text encoded."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(
        self, vocabulary: OutputVocabulary, encode: Callable[[str], list[int]] | None
    ) -> None:
        self.tokens = vocabulary.tokens
        self.special_token_ids = vocabulary.control_ids
        self.eos_token_id = vocabulary.eos_token_ids[0]
        self.opened: LLTokenizer | None = None
        self._encode = encode

    def __call__(self, text: str | bytes) -> list[int]:
        if isinstance(text, bytes):
            text = text.decode(errors="ignore")
        text = text[:_MAX_FORCED_CHARS]
        if self._encode is not None:
            ids = self._encode(text)
            # Some tokenizers put a blank before a text: these are not the bytes that are wanted.
            # A model may have fewer ids than its tokenizer.
            known = [self.tokens[each] for each in ids if each < len(self.tokens)]
            if len(known) == len(ids) and b"".join(known) == text.encode():
                return ids
        return [] if self.opened is None else self.opened.greedy_tokenize(text)
