"""The bytes every token id stands for, read once from a tokenizer.

Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2) spells each byte as one printable character;
SentencePiece-style BPE (Llama 2, Mistral) spells a space as U+2581 and odd bytes as `<0xNN>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class UnsupportedTokenizerError(ValueError):
    """The tokenizer's decoder is of a kind that can not be decoded incrementally here."""


class TokenBytes:
    """Maps token ids to bytes. Special tokens stand for nothing, ids beyond the table neither."""

    def __init__(self, table: list[bytes], *, strips_first_space: bool = False) -> None:
        self._table = table
        self.strips_first_space = strips_first_space
        """Whether one space at the start of the whole output is dropped."""

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> TokenBytes:
        """Raises UnsupportedTokenizerError for an unknown decoder."""
        vocab = tokenizer.get_vocab(with_added_tokens=True)
        return cls.from_vocabulary(vocab, json.loads(tokenizer.to_str()))

    @classmethod
    def from_vocabulary(cls, vocab: Mapping[str, int], document: Mapping[str, Any]) -> TokenBytes:
        """As `from_tokenizer`; `vocab` maps spellings to ids, `document` is the tokenizer.json."""
        parts = _decoder_parts(document.get("decoder"))
        kinds = [part["type"] for part in parts]
        spell: Callable[[str], bytes]
        if kinds == ["ByteLevel"]:
            spell = _spell_byte_level
        elif "ByteFallback" in kinds:
            spell = _spell_byte_fallback
        else:
            raise UnsupportedTokenizerError(f"decoder {'+'.join(kinds) or 'none'} is not supported")
        table = [b""] * (max(vocab.values()) + 1)
        special = {token["id"] for token in document["added_tokens"] if token["special"]}
        for token, token_id in vocab.items():
            if token_id not in special:
                table[token_id] = spell(token)
        strips = any(part["type"] == "Strip" and part.get("start") for part in parts)
        return cls(table, strips_first_space=strips)

    def __getitem__(self, token_id: int) -> bytes:
        return self._table[token_id] if token_id < len(self._table) else b""


def _decoder_parts(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    return decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]


class _ByteOfCharacter(dict[int, int]):
    """For `str.translate`: character -> byte, and what stands for no byte -> no Latin-1."""

    def __missing__(self, character: int) -> int:
        return 0x100


def _byte_of_character() -> _ByteOfCharacter:
    """GPT-2's table: printable Latin-1 stands for itself, the rest for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = _ByteOfCharacter({byte: byte for byte in printable})
    table.update({0x100 + index: byte for index, byte in enumerate(others)})
    return table


_BYTES = _byte_of_character()


def _spell_byte_level(token: str) -> bytes:
    try:
        return token.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        # An added token, which is spelled as it is.
        return token.encode()


def _spell_byte_fallback(token: str) -> bytes:
    match = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace("\u2581", " ").encode()
