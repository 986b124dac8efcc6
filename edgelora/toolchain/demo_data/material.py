"""Reading hand-written material and drawing from it."""

from __future__ import annotations

import importlib.resources
import random
import tomllib
from dataclasses import dataclass
from typing import Any

from edgelora.toolchain.chat_data import Conversation


@dataclass(frozen=True, slots=True)
class Built:
    """A data set: conversations to train on and conversations held out."""

    train: list[Conversation]
    test: list[Conversation]

    def split(self, name: str) -> list[Conversation]:
        """The list called `name`: `train` or `test`."""
        return {"train": self.train, "test": self.test}[name]

    def shuffled(self, order: random.Random) -> Built:
        """The same data in an order drawn from `order`."""
        return Built(
            order.sample(self.train, len(self.train)), order.sample(self.test, len(self.test))
        )


def read_material(name: str) -> dict[str, Any]:
    """Reads a TOML file of this package."""
    file = importlib.resources.files("edgelora.toolchain.demo_data").joinpath(name)
    return tomllib.loads(file.read_text(encoding="utf-8"))


def wording(text: str, order: random.Random) -> str:
    """Draws one of the wordings that " | " separates."""
    return order.choice(text.split(" | "))
