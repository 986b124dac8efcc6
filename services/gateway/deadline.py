"""How long a call may take. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The limits of the gateway; a client's own deadline only ever shortens them."""

    default_s: float
    """For a generation or an encoding whose client set no deadline."""
    max_s: float
    """For everything but installations."""
    install_s: float
    """For an installation from a remote."""

    def of_answer(self, remaining_s: float | None) -> float:
        """Seconds a generation or an encoding may take, given the client's remaining time."""
        return min(self.default_s if remaining_s is None else remaining_s, self.max_s)

    def of_transfer(self, remaining_s: float | None) -> float:
        """Seconds an upload may take, given the client's remaining time."""
        return self.max_s if remaining_s is None else min(remaining_s, self.max_s)

    def of_installation(self, remaining_s: float | None) -> float:
        """Seconds an installation may take, given the client's remaining time."""
        return self.install_s if remaining_s is None else min(remaining_s, self.install_s)
