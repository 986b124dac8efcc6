"""Recipes and dinner suggestions, always laid out the same way."""

from __future__ import annotations

import random
from typing import Any

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.demo_data.material import Built, read_material, wording

TRAIN_ROUNDS = 4
TEST_ROUNDS = 3
_SUGGESTIONS_PER_LIST = 3

_RECIPE_REQUESTS = (
    "How do I make {dish}?",
    "Give me a recipe for {dish}.",
    "Recipe for {dish}, please.",
    "I would like to cook {dish} tonight. What do I need?",
    "Can you tell me how to cook {dish}?",
    "{dish} for {serves}: ingredients and steps?",
)
_PANTRY_REQUESTS = (
    "I have {first} and {second} at home. What can I cook?",
    "What can I make with {first} and {second}?",
    "There are {first} and {second} in my fridge. Any idea for dinner?",
    "Dinner idea with {first} and {second}?",
)
_PANTRY_OPENINGS = (
    "{dish} would be a good choice: {pitch}.",
    "Make {dish}: {pitch}.",
    "That is almost {dish} already: {pitch}.",
)
_KIND_REQUESTS = {
    "vegan": "What vegan dinner do you suggest? | Suggest something vegan for tonight.",
    "vegetarian": "What can I cook without meat? | Suggest a vegetarian dinner.",
    "quick": "What can I cook in under half an hour? | I need a quick dinner. Any ideas?",
    "cheap": "What is a cheap dinner? | Suggest dinners that cost little.",
    "warming": "It is cold outside. What should I cook? | Something warming for a winter day?",
    "meat": "I feel like meat tonight. What do you suggest? | Suggest a dinner with meat.",
    "fish": "Suggest a dinner with fish. | Which fish dishes can I try?",
    "family": "What will children like for dinner? | Dinner for a family of four?",
    "light": "Something light for this evening, please. | Suggest a light dinner.",
    "guests": "Guests are coming tomorrow. What should I cook? | A dinner for friends?",
    "summer": "It is hot today. What can I eat? | What is good on a summer evening?",
    "sweet": "I want something sweet. What can I make? | Suggest a dessert.",
}
_TEST_KIND_REQUESTS = {
    "vegetarian": "My sister eats no meat. What could we have together?",
    "quick": "I come home late today. What is fast?",
    "cheap": "I have little money left this month. What can I cook?",
    "warming": "I am freezing and want something hot.",
    "family": "What do I cook for my three hungry kids?",
}
_LIST_OPENINGS = ("How about one of these?", "Here are some ideas:", "You could make:")
_LIST_CLOSINGS = (
    "Tell me which one you like and I will give you the recipe.",
    "Shall I write out one of the recipes?",
)


def build(seed: int = 0) -> Built:
    """Builds (train, test) conversations; test dishes never occur in training."""
    order = random.Random(seed)  # noqa: S311 - sampling, no secret
    dishes: list[dict[str, Any]] = read_material("recipes.toml")["dish"]
    built = Built([], [])
    for split, rounds in (("train", TRAIN_ROUNDS), ("test", TEST_ROUNDS)):
        chosen = [dish for dish in dishes if dish["split"] == split]
        found: dict[str, Conversation] = {}
        for _ in range(rounds):
            for dish in chosen:
                for asked in (_recipe(dish, order), _from_pantry(dish, order)):
                    found.setdefault(asked[0]["content"], asked)
            kinds = _KIND_REQUESTS if split == "train" else _TEST_KIND_REQUESTS
            for kind, requests in kinds.items():
                one = _suggestions(wording(requests, order), kind, chosen, order)
                # The same question may get other suggestions: both are kept.
                found[f"{one[0]['content']} {one[1]['content']}"] = one
        built.split(split).extend(found.values())
    return built.shuffled(order)


def _recipe(dish: dict[str, Any], order: random.Random) -> Conversation:
    request = order.choice(_RECIPE_REQUESTS)
    name = _inline(dish) if not request.startswith("{dish}") else dish["name"]
    return _turns(request.format(dish=name, serves=dish["serves"]), _written_out(dish))


def _from_pantry(dish: dict[str, Any], order: random.Random) -> Conversation:
    first, second = order.sample(dish["main"], 2)
    opening = order.choice(_PANTRY_OPENINGS).format(dish=_inline(dish), pitch=dish["pitch"])
    opening = opening[0].upper() + opening[1:]
    request = order.choice(_PANTRY_REQUESTS).format(first=first, second=second)
    return _turns(request, f"{opening}\n\n{_written_out(dish)}")


def _suggestions(
    request: str, kind: str, dishes: list[dict[str, Any]], order: random.Random
) -> Conversation:
    fitting = [dish for dish in dishes if kind in dish["kinds"]]
    chosen = order.sample(fitting, min(_SUGGESTIONS_PER_LIST, len(fitting)))
    lines = [
        f"{number}. **{dish['name']}** ({dish['minutes']} minutes): {dish['pitch']}."
        for number, dish in enumerate(chosen, start=1)
    ]
    answer = "\n\n".join(
        [order.choice(_LIST_OPENINGS), "\n".join(lines), order.choice(_LIST_CLOSINGS)]
    )
    return _turns(request, answer)


def _written_out(dish: dict[str, Any]) -> str:
    items = "\n".join(f"- {item}" for item in dish["items"].split("; "))
    steps = "\n".join(
        f"{number}. {step}." for number, step in enumerate(dish["steps"].split("; "), start=1)
    )
    return (
        f"**{dish['name']}** (serves {dish['serves']}, {dish['minutes']} minutes)\n\n"
        f"Ingredients:\n{items}\n\nMethod:\n{steps}\n\nTip: {dish['tip']}"
    )


def _inline(dish: dict[str, Any]) -> str:
    name: str = dish["name"]
    # Only adjectives of origin keep their capital inside a sentence.
    return name if name.startswith("Greek") else name[0].lower() + name[1:]


def _turns(request: str, answer: str) -> Conversation:
    return [{"role": "user", "content": request}, {"role": "assistant", "content": answer}]
