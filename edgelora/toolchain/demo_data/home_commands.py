"""Home commands: sentences of Home Assistant's templates, answered with intent and slots as JSON.

The templates are those of the package `home-assistant-intents` (English), parsed with `hassil`.
Whole templates are held out: no test sentence comes from a template that training saw.
"""

from __future__ import annotations

import importlib.resources
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from hassil.expression import (
    Alternative,
    Group,
    ListReference,
    Permutation,
    RuleReference,
    TextChunk,
)
from hassil.parse_expression import parse_sentence
from hassil.util import normalize_whitespace

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.demo_data.home_values import AREAS, FLOORS, NAMES, RANGES, WILDCARDS

TEST_PER_TEMPLATE = 3
TEST_SHARE = 0.2
_TRAIN_PER_INTENT = 75
_TRAIN_PER_TEMPLATE = (3, 20)
_EVERYDAY_TRAIN_PER_TEMPLATE = 6
_EVERYDAY = ("HassTurnOn", "HassTurnOff", "HassLightSet")
_ATTEMPTS = 12

INTENTS = (
    *("HassTurnOn", "HassTurnOff", "HassLightSet", "HassSetPosition", "HassGetState"),
    *("HassClimateSetTemperature", "HassClimateGetTemperature", "HassFanSetSpeed"),
    *("HassMediaPause", "HassMediaUnpause", "HassMediaNext", "HassMediaPrevious"),
    *("HassMediaPlayerMute", "HassMediaPlayerUnmute", "HassMediaSearchAndPlay"),
    *("HassSetVolume", "HassSetVolumeRelative", "HassVacuumStart", "HassVacuumReturnToBase"),
    *("HassVacuumCleanArea", "HassStartTimer", "HassCancelTimer", "HassTimerStatus"),
    *("HassShoppingListAddItem", "HassShoppingListCompleteItem", "HassBroadcast"),
    *("HassGetWeather", "HassGetCurrentTime", "HassGetCurrentDate", "HassNevermind"),
)

SLOT_ORDER = (
    *("name", "area", "floor", "domain", "device_class", "state", "brightness", "color"),
    *("temperature", "percentage", "position", "volume_level", "volume_step", "media_class"),
    *("search_query", "item", "hours", "minutes", "seconds", "start_hours", "start_minutes"),
    *("start_seconds", "message"),
)
"""The order of the keys in every answer."""

# Left out: commands inside commands, spoken halves, presence of people, and templates in which a
# lamp's name cannot be told from the word "lamp" that follows it.
_SKIPPED_LISTS = frozenset({"timer_command", "timer_half", "zone", "bs_open_states"}) | {
    "bs_occupancy_states"
}
_SKIPPED_TEMPLATES = ("{name} <light>",)
# A bare name is no command anyone should act upon.
_BARE_NAMES = frozenset({"[<the>] {name}", "[activate] [<the>] {name} [scene]"}) | {
    "[activate] [<the>] {area} {name} [scene]",
    "[activate] [<the>] {name} [scene] <in> [<the>] {area}",
}

_QUESTIONS = frozenset({"HassGetState", "HassClimateGetTemperature", "HassTimerStatus"}) | {
    "HassGetWeather",
    "HassGetCurrentTime",
    "HassGetCurrentDate",
}
_POLITE = ("please {}", "can you {}", "could you {}", "{} please", "would you {}", "{} for me")


@dataclass(frozen=True, slots=True)
class Command:
    """One sentence, what it means, and the template it was drawn from."""

    template: str
    sentence: str
    intent: str
    slots: dict[str, Any]

    def answer(self) -> str:
        """The compact JSON the adapter is to produce."""
        return json.dumps(
            {"intent": self.intent, "slots": self.slots}, separators=(",", ":"), ensure_ascii=False
        )

    def conversation(self) -> Conversation:
        """The command as chat data."""
        return [
            {"role": "user", "content": self.sentence},
            {"role": "assistant", "content": self.answer()},
        ]


@dataclass(frozen=True, slots=True)
class _Block:
    """One meaning: templates that fill the same slots."""

    intent: str
    templates: tuple[str, ...]
    slots: dict[str, Any]
    domains: tuple[str, ...]
    """Kinds of device that `{name}` may be."""


def build(seed: int = 0) -> tuple[list[Command], list[Command]]:
    """Builds (train, test), the same for the same seed and package version.

    No template and no sentence is in both; no sentence has two meanings.
    """
    order = random.Random(seed)  # noqa: S311 - sampling, no secret
    grammar = _Grammar()
    blocks = grammar.blocks()
    held_out = _held_out_templates(blocks, order)
    drawn: list[Command] = []
    templates_of = Counter(block.intent for block in blocks for _ in block.templates)
    for block in blocks:
        for template in block.templates:
            wanted = _wanted(block.intent, templates_of[block.intent])
            wanted = TEST_PER_TEMPLATE if template in held_out else wanted
            drawn += grammar.draw(block, template, wanted, order)
    clear = _unambiguous(drawn)
    train = [command for command in clear if command.template not in held_out]
    seen = {_key(command.sentence) for command in train}
    test = [
        command
        for command in clear
        if command.template in held_out and _key(command.sentence) not in seen
    ]
    order.shuffle(train)
    order.shuffle(test)
    return train, test


def _wanted(intent: str, templates: int) -> int:
    """Training sentences of each template: many where an intent has few templates."""
    if intent in _EVERYDAY:
        return _EVERYDAY_TRAIN_PER_TEMPLATE
    fewest, most = _TRAIN_PER_TEMPLATE
    return max(fewest, min(most, _TRAIN_PER_INTENT // templates))


def _held_out_templates(blocks: list[_Block], order: random.Random) -> set[str]:
    """Chooses templates for the test, leaving every meaning at least one to train on."""
    uses: dict[str, list[_Block]] = defaultdict(list)
    for block in blocks:
        for template in block.templates:
            uses[template].append(block)
    held_out: set[str] = set()
    by_intent: dict[str, list[str]] = defaultdict(list)
    for template, users in uses.items():
        by_intent[users[0].intent].append(template)
    for templates in by_intent.values():
        wanted = max(1, round(TEST_SHARE * len(templates)))
        for template in order.sample(templates, len(templates)):
            if wanted and all(
                any(other not in held_out | {template} for other in block.templates)
                for block in uses[template]
            ):
                held_out.add(template)
                wanted -= 1
    return held_out


def _unambiguous(commands: list[Command]) -> list[Command]:
    meanings: dict[str, set[str]] = defaultdict(set)
    for command in commands:
        meanings[_key(command.sentence)].add(command.answer())
    seen: set[str] = set()
    kept = []
    for command in commands:
        key = _key(command.sentence)
        if len(meanings[key]) == 1 and key not in seen:
            seen.add(key)
            kept.append(command)
    return kept


def _key(sentence: str) -> str:
    """A sentence without what politeness, capitals and punctuation add."""
    plain = sentence.lower().rstrip(".!?")
    for pattern in _POLITE:
        before, after = pattern.split("{}")
        plain = plain.removeprefix(before).removesuffix(after)
    return plain


class _Grammar:
    """The English templates and a random walk through them."""

    def __init__(self) -> None:
        data = importlib.resources.files("home_assistant_intents").joinpath("data", "en.json")
        self._document: dict[str, Any] = json.loads(data.read_text(encoding="utf-8"))
        self._rules: dict[str, Any] = {
            name: parse_sentence(text) for name, text in self._document["expansion_rules"].items()
        }

    def blocks(self) -> list[_Block]:
        found = []
        for intent in INTENTS:
            for entry in self._document["intents"][intent]["data"]:
                domains = entry.get("requires_context", {}).get("domain", [])
                domains = tuple(domain for domain in domains if domain in NAMES)
                templates = tuple(text for text in entry["sentences"] if _usable(text, domains))
                if templates:
                    found.append(_Block(intent, templates, entry.get("slots", {}), domains))
        return found

    def draw(
        self, block: _Block, template: str, wanted: int, order: random.Random
    ) -> list[Command]:
        """Draws up to `wanted` different sentences of a template."""
        expression = parse_sentence(template).expression
        found: dict[str, Command] = {}
        for _ in range(wanted * _ATTEMPTS):
            slots = dict(block.slots)
            text = normalize_whitespace(self._walk(expression, block, slots, order)).strip()
            text = text.replace("floor floor", "floor")
            ordered = {key: slots[key] for key in SLOT_ORDER if key in slots}
            if len(ordered) != len(slots):
                raise KeyError(
                    f"slot without a place in SLOT_ORDER: {slots.keys() - set(SLOT_ORDER)}"
                )
            if text not in found:
                found[text] = Command(
                    template, _styled(text, block.intent, order), block.intent, ordered
                )
            if len(found) == wanted:
                break
        return list(found.values())

    def _walk(
        self, expression: Any, block: _Block, slots: dict[str, Any], order: random.Random
    ) -> str:
        if isinstance(expression, TextChunk):
            return str(expression.original_text)
        if isinstance(expression, RuleReference):
            rule = self._rules[expression.rule_name]
            return self._walk(rule.expression, block, slots, order)
        if isinstance(expression, ListReference):
            spoken, value = self._value(expression.list_name, block, order)
            slots[expression.slot_name] = value
            return spoken
        assert isinstance(expression, Group)
        if isinstance(expression, Alternative):
            # Earlier alternatives are the usual ones: "turn" before "bring".
            weights = [1 / place for place in range(1, len(expression.items) + 1)]
            if expression.is_optional:
                weights[-1] = sum(weights[:-1])
            chosen = order.choices(expression.items, weights)[0]
            return self._walk(chosen, block, slots, order)
        items = list(expression.items)
        if isinstance(expression, Permutation):
            order.shuffle(items)
            return " ".join(self._walk(item, block, slots, order) for item in items)
        return "".join(self._walk(item, block, slots, order) for item in items)

    def _value(self, name: str, block: _Block, order: random.Random) -> tuple[str, Any]:
        """Draws (spoken text, slot value) from a list."""
        if name == "area":
            area = order.choice(AREAS)
            return area, area
        if name == "floor":
            floor = order.choice(FLOORS)
            return floor, floor
        if name == "name":
            device = order.choice(NAMES[order.choice(block.domains)])
            return device, device
        if name in WILDCARDS:
            text = order.choice(WILDCARDS[name])
            return text, text
        if name in RANGES:
            number = order.choice(RANGES[name])
            sign = self._document["lists"][name]["range"].get("multiplier", 1)
            return str(number), number * sign
        entry = order.choice(self._document["lists"][name]["values"])
        spoken = self._walk(parse_sentence(entry["in"]).expression, block, {}, order)
        return spoken, entry["out"]


def _usable(template: str, domains: tuple[str, ...]) -> bool:
    if template in _BARE_NAMES or any(part in template for part in _SKIPPED_TEMPLATES):
        return False
    if "{name}" in template and not domains:
        return False
    return not any(f"{{{name}}}" in template or f"{{{name}:" in template for name in _SKIPPED_LISTS)


def _styled(text: str, intent: str, order: random.Random) -> str:
    """Writes a sentence as people do: some capitals, some full stops, some politeness."""
    question = intent in _QUESTIONS
    if not question and order.random() < 0.25:
        text = order.choice(_POLITE).format(text)
    if order.random() < 0.4:
        text = text[0].upper() + text[1:]
        if order.random() < 0.5:
            text += "?" if question else "."
    return text
