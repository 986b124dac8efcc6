"""What the forecast may spend, and when moving an adapter ahead of use is worth it."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpSettings:
    """Budgets and thresholds of the warm-up."""

    bytes_per_hour: int = 256 * _MIB
    """Read from flash and brought from remotes ahead of use, at most; the budget of an unused hour
    is not carried on."""
    joules_per_hour: float = 36.0
    """Spent on that, at most: 10 mW on average."""
    min_saving_s_per_joule: float = 0.001
    """Waiting that a joule must be expected to save."""
    horizon_minutes: float = 15.0
    """How far ahead memory is warmed."""
    busy_watts: float = 3.0
    """What loading into a slot or restoring draws while it lasts."""
    joules_per_flash_mib: float = 0.01
    """What reading a MiB from flash takes."""
    joules_per_remote_mib: float = 0.2
    """What bringing a MiB over the network takes, writing it included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCosts:
    """Seconds it takes to move an adapter closer, as measured."""

    load_s: float = 0.02
    """From flash into a slot."""
    restore_s: float = 1.5
    """From a remote to flash."""

    def after_load(self, load_s: float) -> TierCosts:
        """With another load measured."""
        return TierCosts(load_s=_follow(self.load_s, load_s), restore_s=self.restore_s)

    def after_restore(self, restore_s: float) -> TierCosts:
        """With another restore measured."""
        return TierCosts(load_s=self.load_s, restore_s=_follow(self.restore_s, restore_s))


def _follow(mean_s: float, value_s: float) -> float:
    return mean_s + 0.1 * (value_s - mean_s)
