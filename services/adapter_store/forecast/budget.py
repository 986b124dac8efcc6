"""How many bytes and joules may still be spent ahead of use. Pure: the time is given."""

from __future__ import annotations

from dataclasses import dataclass

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Spending:
    """Bytes moved and joules spent."""

    size_bytes: float
    joules: float


class Budget:
    """A bucket that refills evenly and holds an hour's worth, and an equal part for each tenant.

    A tenant spends from its part, so that none can take what the others need.
    """

    def __init__(self, bytes_per_hour: float, joules_per_hour: float) -> None:
        self._rate = Spending(bytes_per_hour, joules_per_hour)
        self.left = self._rate
        self._parts: dict[str, Spending] = {}
        self._num_tenants = 1

    def restore(self, left: Spending) -> None:
        """Goes on from what was left in an earlier run."""
        self.left = _at_most(left, self._rate)

    def refill(self, elapsed_s: float, num_tenants: int) -> None:
        """Time went by; `num_tenants` share the budget from now on."""
        self._num_tenants = max(1, num_tenants)
        hours = max(0.0, elapsed_s) / _HOUR_S
        self.left = _refilled(self.left, self._rate, hours)
        part = self._part
        self._parts = {
            tenant_id: refilled
            for tenant_id, left in self._parts.items()
            if (refilled := _refilled(left, part, hours)) != part
        }

    def spend(self, tenant_id: str, spending: Spending) -> bool:
        """Takes from the budget for a tenant, or nothing when it is not all there."""
        part = self._parts.get(tenant_id, self._part)
        for left in (self.left, part):
            if spending.size_bytes > left.size_bytes or spending.joules > left.joules:
                return False
        self.left = _minus(self.left, spending)
        self._parts[tenant_id] = _minus(part, spending)
        return True

    @property
    def _part(self) -> Spending:
        return Spending(
            self._rate.size_bytes / self._num_tenants, self._rate.joules / self._num_tenants
        )


def _refilled(left: Spending, rate: Spending, hours: float) -> Spending:
    return _at_most(
        Spending(left.size_bytes + rate.size_bytes * hours, left.joules + rate.joules * hours), rate
    )


def _at_most(left: Spending, most: Spending) -> Spending:
    return Spending(min(left.size_bytes, most.size_bytes), min(left.joules, most.joules))


def _minus(left: Spending, spending: Spending) -> Spending:
    return Spending(left.size_bytes - spending.size_bytes, left.joules - spending.joules)
