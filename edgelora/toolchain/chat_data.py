"""Chat data: the conversations of a file, a JSON object a line or one JSON array, and their tokens.

The shapes an object may have are in `chat_shapes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.toolchain.chat_shapes import Conversation as Conversation
from edgelora.toolchain.chat_shapes import conversation_of
from edgelora.toolchain.data_text import decode_data, read_data_file
from edgelora.toolchain.errors import ToolchainError, refusing

IGNORED = -100
"""Label of a token that carries no loss."""


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation as the model sees it."""

    token_ids: list[int]
    labels: list[int]
    """The token itself where the assistant wrote it, else `IGNORED`; as long as `token_ids`."""

    @property
    def loss_tokens(self) -> int:
        """Tokens that carry loss."""
        return sum(label != IGNORED for label in self.labels)


def read_conversations(path: Path) -> list[Conversation]:
    """Reads a data file. Raises ToolchainError naming the file and line of the first defect."""
    return [conversation for _, conversation in read_numbered(path)]


def read_numbered(path: Path) -> list[tuple[int, Conversation]]:
    """As `read_conversations`, each with the line it begins in, from 1."""
    return numbered(read_data_file(path), path.name)


def numbered(data: bytes, name: str) -> list[tuple[int, Conversation]]:
    """As `read_numbered`, of the bytes of a file of that name."""
    text = decode_data(data, name)
    entries = _array(text, name) if text.lstrip().startswith("[") else _lines(text, name)
    conversations = [
        (line, conversation_of(entry, f"{name}, line {line}")) for line, entry in entries
    ]
    if not conversations:
        raise ToolchainError(f"{name} holds no examples: add one JSON object a line")
    return conversations


def write_conversations(path: Path, conversations: list[Conversation]) -> None:
    """Writes a JSONL file that `read_conversations` reads."""
    lines = [json.dumps({"messages": one}, ensure_ascii=False) + "\n" for one in conversations]
    path.write_text("".join(lines), encoding="utf-8")


def encode(conversation: Conversation, tokenizer: Any, *, max_tokens: int, where: str) -> Example:
    """Renders a conversation with the model's chat template and marks the assistant's tokens.

    A turn is tokenised on its own after the prompt it answers, exactly as it is when serving; its
    end-of-turn token carries loss, what the template writes after that does not.
    Raises ToolchainError when it is longer than `max_tokens`, and when the template refuses it.
    """
    token_ids: list[int] = []
    labels: list[int] = []
    rendered = ""
    for index, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
        with refusing(f"{where}: the model's chat template refuses these roles in this order"):
            prompt = tokenizer.apply_chat_template(
                conversation[:index], tokenize=False, add_generation_prompt=True
            )
            whole = tokenizer.apply_chat_template(conversation[: index + 1], tokenize=False)
        if not (prompt.startswith(rendered) and whole.startswith(prompt)):
            raise ToolchainError("the model's chat template rewrites earlier turns: not supported")
        answer, end, rest = whole[len(prompt) :].rpartition(tokenizer.eos_token)
        if not end:
            raise ToolchainError("the model's chat template ends no turn: not supported")
        asked = _ids(tokenizer, prompt[len(rendered) :])
        answered = _ids(tokenizer, answer + end)
        after = _ids(tokenizer, rest)
        token_ids += asked + answered + after
        labels += [IGNORED] * len(asked) + answered + [IGNORED] * len(after)
        rendered = whole
    # The last label that counts is the last thing to predict: nothing after it is needed.
    length = max(index for index, label in enumerate(labels) if label != IGNORED) + 1
    if length > max_tokens:
        raise ToolchainError(
            f"{where} has {length} tokens, the limit is {max_tokens}: shorten it, or raise "
            "the limit up to the model's context"
        )
    return Example(token_ids[:length], labels[:length])


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
    return ids


def _lines(text: str, name: str) -> Iterator[tuple[int, Any]]:
    # At line breaks alone: the other separators of `splitlines` may stand inside JSON's texts.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ToolchainError(
                    f"{name}, line {number} is not JSON: write one JSON object a line"
                ) from error


def _array(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """The entries of one JSON array over many lines."""
    decoder = json.JSONDecoder()
    line, counted = 1, 0

    def where(position: int) -> str:
        nonlocal line, counted
        line, counted = line + text.count("\n", counted, position), position
        return f"{name}, line {line}"

    position = _after_space(text, text.index("[") + 1)
    while text[position : position + 1] != "]":
        place = where(position)
        try:
            entry, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise ToolchainError(f"{place} is not JSON: an object is needed there") from error
        yield line, entry
        position = _after_space(text, position)
        if text[position : position + 1] == ",":
            position = _after_space(text, position + 1)
        elif text[position : position + 1] != "]":
            raise ToolchainError(f"{where(position)}: the array lacks a comma or its end")
    position = _after_space(text, position + 1)
    if position < len(text):
        raise ToolchainError(f"{where(position)}: more follows the array: one array a file")


def _after_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position
