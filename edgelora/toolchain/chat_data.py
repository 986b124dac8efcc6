"""Chat data: one JSON object a line, `{"messages": [{"role": ..., "content": ...}, ...]}`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.toolchain.errors import ToolchainError

ROLES = ("system", "user", "assistant")
IGNORED = -100
"""Label of a token that carries no loss."""

Conversation = list[dict[str, str]]
"""Messages in order, each with `role` and `content`."""


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
    """Reads a JSONL file. Raises ToolchainError naming the file and line of the first defect."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ToolchainError(f"data file {path.name!r} not found: check its path") from error
    except IsADirectoryError as error:
        raise ToolchainError(f"{path.name!r} is a directory: give a JSONL file") from error
    except UnicodeDecodeError as error:
        raise ToolchainError(f"{path.name} is not UTF-8 text: save it as UTF-8") from error
    conversations = [
        _conversation(line, f"{path.name}, line {number}")
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    if not conversations:
        raise ToolchainError(f"{path.name} holds no examples: add one JSON object a line")
    return conversations


def write_conversations(path: Path, conversations: list[Conversation]) -> None:
    """Writes a JSONL file that `read_conversations` reads."""
    lines = [json.dumps({"messages": one}, ensure_ascii=False) + "\n" for one in conversations]
    path.write_text("".join(lines), encoding="utf-8")


def encode(conversation: Conversation, tokenizer: Any, *, max_tokens: int, where: str) -> Example:
    """Renders a conversation with the model's chat template and marks the assistant's tokens.

    A turn is tokenised on its own after the prompt it answers, exactly as it is when serving; its
    end-of-turn token carries loss, what the template writes after that does not.
    Raises ToolchainError when it is longer than `max_tokens`.
    """
    token_ids: list[int] = []
    labels: list[int] = []
    rendered = ""
    for index, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
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
            f"{where} has {length} tokens, the limit is {max_tokens}: shorten it or raise the limit"
        )
    return Example(token_ids[:length], labels[:length])


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
    return ids


def _conversation(line: str, where: str) -> Conversation:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ToolchainError(f"{where} is not JSON: write one JSON object a line") from error
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not messages:
        raise ToolchainError(f"{where} has no 'messages' list")
    conversation: Conversation = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if role not in ROLES:
            raise ToolchainError(f"{where}: 'role' must be one of {', '.join(ROLES)}")
        if not isinstance(content, str) or not content.strip():
            raise ToolchainError(f"{where}: 'content' must be text that is not empty")
        conversation.append({"role": role, "content": content})
    if all(message["role"] != "assistant" for message in conversation):
        raise ToolchainError(f"{where} has no assistant message: there is nothing to learn from it")
    return conversation
