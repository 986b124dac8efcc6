"""Business e-mails: a request in one line, answered with subject, greeting, body and closing."""

from __future__ import annotations

import random
import re
from typing import Any

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.demo_data.material import Built, read_material, wording

TRAIN_PER_SCENARIO = 11
TEST_PER_SCENARIO = 6
_CLOSINGS = ("Best regards,", "Kind regards,")
_PLACEHOLDER = "[Your name]"


def build(seed: int = 0) -> Built:
    """Builds (train, test) conversations; test scenarios are subjects training never saw."""
    order = random.Random(seed)  # noqa: S311 - sampling, no secret
    material = read_material("business_email.toml")
    built = Built([], [])
    for scenario in material["scenario"]:
        target = built.split(scenario["split"])
        wanted = TRAIN_PER_SCENARIO if target is built.train else TEST_PER_SCENARIO
        requests: set[str] = set()
        while len(requests) < wanted:
            conversation = _conversation(scenario, material["slots"], order)
            if conversation[0]["content"] not in requests:
                requests.add(conversation[0]["content"])
                target.append(conversation)
    return built.shuffled(order)


def _conversation(
    scenario: dict[str, Any], slots: dict[str, list[str]], order: random.Random
) -> Conversation:
    values = {name: order.choice(choices) for name, choices in slots.items()}
    ask = wording(scenario["ask"], order)
    body = [wording(line, order) for line in scenario["body"]]
    # A detail that the request does not give may not appear in the answer out of thin air.
    unknown = set(re.findall(r"{(\w+)}", scenario["subject"] + "".join(body)))
    unknown -= set(re.findall(r"{(\w+)}", ask))
    details = ", ".join(f"{name.replace('_', ' ')} {{{name}}}" for name in sorted(unknown))
    request = ask + (f" Details: {details}." if details else "")
    sender = values["sender"] if order.random() < 0.5 else _PLACEHOLDER
    if sender != _PLACEHOLDER:
        request += f" Sign as {sender}."
    greeting = "Dear all," if scenario.get("to") == "all" else _greeting(values["name"], order)
    answer = "\n\n".join(
        [
            f"Subject: {scenario['subject']}",
            greeting,
            *_paragraphs(body),
            f"{order.choice(_CLOSINGS)}\n{sender}",
        ]
    )
    return [
        {"role": "user", "content": request.format(**values)},
        {"role": "assistant", "content": answer.format(**values)},
    ]


def _greeting(name: str, order: random.Random) -> str:
    formal = name.split()[0] in ("Mr", "Ms", "Dr")
    return f"Dear {name}," if formal or order.random() < 0.5 else f"Hello {name},"


def _paragraphs(lines: list[str]) -> list[str]:
    """A list keeps its own paragraph; otherwise the last sentence stands alone."""
    if any(line.startswith("- ") for line in lines):
        return lines
    return [" ".join(lines[:-1]), lines[-1]]
