"""A children's tutor: short explanations, sums, and kind refusals of unsuitable topics."""

from __future__ import annotations

import random
from typing import Any

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.demo_data.material import Built, read_material, wording

TRAIN_FACT_ROUNDS = 4
TEST_FACT_ROUNDS = 2
TRAIN_REFUSAL_ROUNDS = 6
TEST_REFUSAL_ROUNDS = 3
TRAIN_SUMS = 70
TEST_SUMS = 10

_OPENINGS = (
    "Good question!",
    "I am glad you asked!",
    "Let us find out together!",
    "Great question!",
)
_CHILD = ("{}", "{}", "{}", "I am 8. {}", "My teacher talked about this. {}", "{} I do not get it.")
_REFUSALS = (
    "I cannot help with {topic}, because {reason}.",
    "{Topic}? That is something I do not help with, because {reason}.",
    "That is not a topic for us: {reason}. So I will not help with {topic}.",
)
_ADULT = (
    "Please talk to a grown-up you trust about it today.",
    "Please tell your parents or your teacher about it now.",
)
_INSTEAD = (
    "But I would love to show you {instead}. Shall we?",
    "How about this instead: {instead}?",
    "Would you like to hear about {instead}?",
)
_SUM_PRAISE = ("Let us do it step by step.", "We can do this together.", "Here is a trick.")


def build(seed: int = 0) -> Built:
    """Builds (train, test) conversations; test subjects, topics and sums are not in training."""
    order = random.Random(seed)  # noqa: S311 - sampling, no secret
    material = read_material("tutor.toml")
    built = Built([], [])
    rounds = {
        "train": (TRAIN_FACT_ROUNDS, TRAIN_REFUSAL_ROUNDS, TRAIN_SUMS),
        "test": (TEST_FACT_ROUNDS, TEST_REFUSAL_ROUNDS, TEST_SUMS),
    }
    sums = _sums(order)
    for split, (fact_rounds, refusal_rounds, sum_count) in rounds.items():
        found: dict[str, Conversation] = {}
        for write, entries, count in (
            (_explanation, material["fact"], fact_rounds),
            (_refusal, material["unsuitable"], refusal_rounds),
        ):
            for entry in entries:
                if entry["split"] != split:
                    continue
                for _ in range(count):
                    one = write(entry, order)
                    found.setdefault("".join(message["content"] for message in one), one)
        built.split(split).extend(found.values())
        built.split(split).extend(_sum(*sums.pop(), order) for _ in range(sum_count))
    return built.shuffled(order)


def _explanation(fact: dict[str, Any], order: random.Random) -> Conversation:
    question = order.choice(_CHILD).format(wording(fact["ask"], order))
    answer = f"{order.choice(_OPENINGS)} {fact['answer']}\n\nThink about it: {fact['think']}"
    return _turns(question, answer)


def _refusal(entry: dict[str, Any], order: random.Random) -> Conversation:
    if "answer" in entry:
        return _turns(wording(entry["ask"], order), wording(entry["answer"], order))
    topic: str = entry["topic"]
    values = {**entry, "Topic": topic[0].upper() + topic[1:]}
    parts = [order.choice(_REFUSALS).format(**values)]
    if entry.get("adult", False):
        parts.append(order.choice(_ADULT))
    parts.append(order.choice(_INSTEAD).format(**values))
    return _turns(wording(entry["ask"], order), " ".join(parts))


def _sums(order: random.Random) -> list[tuple[int, str, int]]:
    """Different sums a child of that age works out, in random order."""
    choices: list[tuple[int, str, int]] = []
    choices += [(a, "+", b) for a in range(13, 90, 7) for b in range(12, 60, 11)]
    choices += [(a, "-", b) for a in range(41, 99, 8) for b in range(12, 39, 5)]
    choices += [(a, "x", b) for a in range(3, 10) for b in range(12, 25, 3)]
    order.shuffle(choices)
    return choices


def _sum(first: int, sign: str, second: int, order: random.Random) -> Conversation:
    question = order.choice(("What is {}?", "Can you help me with {}?", "How do I work out {}?"))
    tens, ones = second // 10 * 10, second % 10
    if sign == "+":
        step = (
            f"First add the tens: {first} + {tens} = {first + tens}. "
            f"Then add the ones: {first + tens} + {ones} = {first + second}."
        )
    elif sign == "-":
        step = (
            f"First take away the tens: {first} - {tens} = {first - tens}. "
            f"Then the ones: {first - tens} - {ones} = {first - second}."
        )
    else:
        step = (
            f"Split {second} into {tens} and {ones}: {first} x {tens} = {first * tens} and "
            f"{first} x {ones} = {first * ones}. Together that is {first * second}."
        )
    answer = (
        f"{order.choice(_SUM_PRAISE)} {step}\n\nThink about it: how could you check the result?"
    )
    return _turns(question.format(f"{first} {sign} {second}"), answer)


def _turns(question: str, answer: str) -> Conversation:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
