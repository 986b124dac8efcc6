"""Exact match: the share of answers that are the expected JSON, key for key, or the very text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.evaluation import greedy_answers

MAX_ANSWER_TOKENS = 64


def same_json(answer: str, expected: str) -> bool:
    """Whether `answer` is JSON equal to `expected`; spaces and the order of keys are free."""
    try:
        return bool(json.loads(answer) == json.loads(expected))
    except ValueError:
        return False


def same_answer(answer: str, expected: str) -> bool:
    """Whether `answer` is the expected text, but for the space around it, or the same JSON."""
    return answer.strip() == expected.strip() or same_json(answer, expected)


def exact_match(model: Any, tokenizer: Any, conversations: Sequence[Conversation]) -> float:
    """Share (0..1) of conversations whose last message the model gives by greedy decoding."""
    answers = greedy_answers(
        model,
        tokenizer,
        [conversation[:-1] for conversation in conversations],
        max_new_tokens=MAX_ANSWER_TOKENS,
        title="Measuring exact match",
    )
    right = sum(
        same_answer(answer, conversation[-1]["content"])
        for answer, conversation in zip(answers, conversations, strict=True)
    )
    return round(right / len(conversations), 4)
