"""A conversation with the model: what was said, and how answers are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgelora.adapter_names import AUTO
from edgelora.cli.errors import CliError
from edgelora.degradation import DegradationPreference
from edgelora.generation import Adapters, GenerationOptions, Priority

MAX_STRENGTH = 2.0


@dataclass(slots=True, kw_only=True)
class ChatSession:
    """What the next turn builds on."""

    adapters: dict[str, float]
    """Alias or digest -> strength, or `auto` alone; empty: the base model."""
    options: GenerationOptions
    system: str | None
    user: str
    """Who of the tenant's people asks; may be empty."""
    priority: Priority = "interactive"
    degradation: DegradationPreference = field(default_factory=DegradationPreference)
    """What to do while the device is under pressure."""
    name: str = ""
    """What the node keeps the conversation under; empty: it does not."""
    is_id_shown: bool = False
    """Whether the id of each request is shown."""
    _turns: list[tuple[str, str]] = field(default_factory=list)

    @property
    def selection(self) -> Adapters:
        """The adapters as a request names them: `auto` has no strength."""
        return AUTO if AUTO in self.adapters else self.adapters

    def messages_with(self, message: str) -> list[tuple[str, str]]:
        """The conversation so far and one more message of the user, as (role, content)."""
        opening = [("system", self.system)] if self.system else []
        return [*opening, *self._turns, ("user", message)]

    def remember(self, message: str, answer: str) -> None:
        """Adds a turn; one that got no answer at all is forgotten."""
        if answer:
            self._turns += [("user", message), ("assistant", answer)]

    def forget(self) -> None:
        """Starts a new conversation."""
        self._turns.clear()


def parse_adapters(words: Sequence[str]) -> dict[str, float]:
    """Reads `NAME` or `NAME=STRENGTH` words.

    Raises CliError for a strength out of range, for a name that comes twice, and for an `auto`
    with a strength or with others.
    """
    chosen: dict[str, float] = {}
    for number, word in enumerate(words, 1):
        name, has_strength, text = word.partition("=")
        try:
            strength = float(text) if has_strength else 1.0
        except ValueError:
            strength = math.nan
        if not name or not 0 <= strength <= MAX_STRENGTH:
            raise CliError(
                "an adapter is NAME or NAME=STRENGTH with a strength from 0 to 2, "
                "for example email=0.5"
            )
        if name in chosen:
            raise CliError(
                f"adapter {number} was named before: give each once, with its whole strength"
            )
        chosen[name] = strength
    if AUTO in chosen and list(words) != [AUTO]:
        raise CliError(f"{AUTO} leaves the choice to the node: give it alone, without a strength")
    return chosen
