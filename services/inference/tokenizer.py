"""Text to token ids. What a user writes never becomes a control token."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Tokenizer

from services.chassis.tool_call_text import CLOSE, OPEN
from services.inference.engine.token_bytes import TokenBytes

FILE_NAME = "tokenizer.json"
_CALL_MARKS = (OPEN, CLOSE)
_CALL_MARK = re.compile(f"({OPEN}|{CLOSE})")


class TextTokenizer:
    """Encodes plain text and rendered conversations. Safe to share between threads.

    Every added token but runs of white space counts as a control token.
    """

    def __init__(self, document: str) -> None:
        """`document` is a tokenizer.json. Raises UnsupportedTokenizerError."""
        description = json.loads(document)
        added = [
            {**token, "special": not token["content"].isspace()}
            for token in description["added_tokens"]
        ]
        self._control_ids = {token["content"]: token["id"] for token in added if token["special"]}
        altered = json.dumps({**description, "added_tokens": added})
        del description["model"]  # most of the document, not needed beside the tokenizer's own
        # The marks of calls are output, whatever a vocabulary makes of them.
        for token in description["added_tokens"]:
            token["special"] = token["special"] and token["content"] not in _CALL_MARKS
        self._tokenizer = Tokenizer.from_str(altered)
        self.token_bytes = TokenBytes.from_vocabulary(
            self._tokenizer.get_vocab(with_added_tokens=True), description
        )
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        longest_first = sorted(self._control_ids, key=len, reverse=True)
        self._controls = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @classmethod
    def load(cls, directory: Path) -> TextTokenizer:
        """Reads a prepared model directory. Raises FileNotFoundError."""
        return cls((directory / FILE_NAME).read_text(encoding="utf-8"))

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Spellings of the control tokens."""
        return tuple(self._control_ids)

    @property
    def control_tokens_by_id(self) -> dict[int, str]:
        """Control tokens: id -> spelling."""
        return {token_id: token for token, token_id in self._control_ids.items()}

    def token_id(self, token: str) -> int | None:
        """The id of a token by its spelling."""
        token_id: int | None = self._tokenizer.token_to_id(token)
        return token_id

    def encode(self, text: str) -> list[int]:
        """Ids of a text, control tokens in it spelled out; with the model's own start token."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=True).ids
        return ids

    def encode_rendered(self, text: str, marker: str) -> list[int]:
        """Ids of a rendered conversation.

        A control token in it is one, unless `marker` stands inside; markers are dropped.
        """
        ids: list[int] = []
        end = 0
        for match in self._controls.finditer(text):
            ids += self._encode_part(text[end : match.start()], marker)
            ids.append(self._control_ids[match[0]])
            end = match.end()
        return ids + self._encode_part(text[end:], marker)

    def encode_written(self, text: str) -> list[int]:
        """Ids of a piece of output as a model writes it: of the control tokens only the marks of
        calls are such, and no start token stands before it."""
        ids: list[int] = []
        for part in _CALL_MARK.split(text):
            mark_id = self._control_ids.get(part) if part in _CALL_MARKS else None
            ids += self._encode_plain(part) if mark_id is None else [mark_id]
        return ids

    def _encode_part(self, text: str, marker: str) -> list[int]:
        return self._encode_plain(text.replace(marker, ""))

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids
