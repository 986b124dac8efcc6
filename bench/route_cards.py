"""Adapters in groups of near-equals: versions of the demo adapters, told by parts of their cards.

A version's card has the description of its demo adapter and half of its example prompts, drawn for
the version: which of them is the best for a prompt differs from prompt to prompt, by little.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import BenchError

DEMO = Path(__file__).resolve().parents[1] / "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCard:
    """What one version says of itself."""

    group: str
    description: str
    examples: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The content of its card.json."""
        return {"description": self.description, "examples": list(self.examples)}


def version_cards(groups: Sequence[str], num_versions: int, seed: int) -> list[VersionCard]:
    """Cards of `num_versions` of each of the demo adapters, group by group."""
    draw = random.Random(seed)
    cards = []
    for group in groups:
        card = json.loads((DEMO / group / "card.json").read_text(encoding="utf-8"))
        examples = card["examples"]
        for _ in range(num_versions):
            part = draw.sample(examples, max(1, len(examples) // 2))
            cards.append(
                VersionCard(group=group, description=card["description"], examples=tuple(part))
            )
    return cards


def demo_groups() -> list[str]:
    """Names of the demo adapters that have a card. Raises BenchError when there is none."""
    groups = sorted(path.parent.name for path in DEMO.glob("*/card.json"))
    if not groups:
        raise BenchError("the demo adapters are missing: run this from the source tree")
    return groups


def held_out_prompts(group: str) -> list[str]:
    """What users ask in the held-out data of a demo adapter, which its card has nothing of."""
    file = DEMO / group / "data" / "test.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    conversations = [json.loads(line)["messages"] for line in lines]
    return [conversation[-2]["content"] for conversation in conversations]
