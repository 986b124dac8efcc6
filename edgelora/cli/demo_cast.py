"""Who takes part in the demonstration of `edgelora up`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEMO_DIRECTORY = Path(__file__).resolve().parents[2] / "demo"
"""The demo adapters of the source tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One tenant, the adapter it uses and what it asks."""

    tenant: str
    adapter: str
    """Directory under demo/, and the alias the adapter is registered under."""
    prompt: str
    description: str


CAST = (
    Role(
        tenant="office",
        adapter="email",
        prompt="Write a short e-mail to Ms Okafor: our meeting moves from Tuesday to next "
        "Thursday at 10:00. Sign as Julia Brandt.",
        description="Business e-mails",
    ),
    Role(
        tenant="kitchen",
        adapter="recipes",
        prompt="What can I cook for dinner with rice, eggs and spinach?",
        description="Recipes and dinner suggestions",
    ),
    Role(
        tenant="school",
        adapter="tutor",
        prompt="Why is the sky blue?",
        description="A tutor for children",
    ),
    Role(
        tenant="home",
        adapter="home",
        prompt="turn off the lamp in the kitchen please",
        description="Home commands as JSON",
    ),
)
