"""Writes an adapter's own probe: what it has to get right, for whoever stores it in fewer bits.

One JSON object a line, `{"prompt": text, "answer": text}`, both as the model reads them: rendered
with the chat template, control tokens spelled out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgelora.toolchain.chat_data import Conversation

PROBE_FILE = "probe.jsonl"
MAX_LINES = 64
MAX_TOKENS = 512
"""Of all lines: a registration runs them twice for each level of the codec it tries."""
MAX_BYTES = 64 << 10


def write_probe(directory: Path, conversations: Iterable[Conversation], tokenizer: Any) -> int:
    """Writes as many conversations as fit, drawn from data that was not trained on.

    The assistant's last message is the answer. The same draw for the same data. Returns the number
    of lines; without any, no file is written.
    """
    lines: list[str] = []
    tokens = size = 0
    drawn = list(conversations)
    random.Random(0).shuffle(drawn)  # noqa: S311 - a draw, no secret
    for conversation in drawn:
        if conversation[-1]["role"] != "assistant":
            continue
        prompt, answer = _rendered(conversation, tokenizer)
        line = json.dumps({"prompt": prompt, "answer": answer}, ensure_ascii=False) + "\n"
        tokens += sum(
            len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (prompt, answer)
        )
        size += len(line.encode())
        if tokens > MAX_TOKENS or size > MAX_BYTES or len(lines) == MAX_LINES:
            break
        lines.append(line)
    if lines:
        (directory / PROBE_FILE).write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _rendered(conversation: Conversation, tokenizer: Any) -> tuple[str, str]:
    """The prompt up to the assistant's last turn, and that turn with its end."""
    prompt = tokenizer.apply_chat_template(
        conversation[:-1], tokenize=False, add_generation_prompt=True
    )
    whole = tokenizer.apply_chat_template(conversation, tokenize=False)
    answer, end, _ = whole[len(prompt) :].rpartition(tokenizer.eos_token)
    return prompt, answer + end
