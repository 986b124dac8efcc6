"""The texts on which an encoded adapter is compared with its original: short, of several kinds."""

from __future__ import annotations

NAME = "built-in-1"
"""Changes with any change of the texts or of how they are used."""
GIVEN_TOKENS = 4
"""Tokens at the start of a text that are only read."""
COMPARED_TOKENS = 11
"""Most tokens after them; before each one the model's distributions are compared."""

TEXTS = (
    "Dear Ms Keller, thank you for your message of Monday. We would like to move the meeting to "
    "Thursday at ten, because the room is taken.",
    "Heat two spoons of oil in a pan, add the chopped onion and stir until it is golden. Then pour "
    "in the tomatoes and a little salt.",
    "Question: Why is the sky blue? Answer: Sunlight is made of many colours, and the air scatters "
    "blue light more than red light.",
    '{"intent": "HassTurnOn", "slots": {"area": "kitchen", "domain": "light", "brightness": 40}}',
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    "
    "return total / len(values)\n",
    "User: The heating in the bathroom does not get warm any more. What can I do?\nAssistant: "
    "First check whether the valve is open, then let the air out.",
    "In 1969 the first people walked on the Moon. The journey took four days, and millions watched "
    "it on television.",
    "Guten Tag, ich suche ein ruhiges Zimmer für zwei Nächte, wenn möglich mit Frühstück und einem "
    "Platz für das Auto.",
)
