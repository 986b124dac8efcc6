"""Who may start a request now: a cap on running requests and a token bucket for each tenant.

Pure: no clock, no I/O; the time is passed in. What a request could cost at most is taken out of
the bucket when it starts, and what it did not use is put back when it ends, so that any number of
requests started at once can not use more than the quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgelora.errors import QuotaExceededError

_CONCURRENCY_RETRY_S = 1.0
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What one tenant may use."""

    max_concurrent_requests: int
    max_tokens_per_minute: int
    """Also the size of the bucket."""


class _Phase(Enum):
    RUNNING = "running"
    SETTLED = "settled"


@dataclass(slots=True, kw_only=True)
class Reservation:
    """One admitted request's hold on its tenant's quota."""

    tenant_id: str
    reserved_tokens: int
    phase: _Phase = _Phase.RUNNING


@dataclass(slots=True, kw_only=True)
class Balance:
    """What is left in a tenant's bucket, and when that was reckoned. Below 0 it is a debt."""

    tokens: float
    at_s: float


class AdmissionControl:
    """Counts what every tenant runs and has left. Lives on one event loop and needs no locks."""

    def __init__(self) -> None:
        self._balances: dict[str, Balance] = {}
        self._num_running: dict[str, int] = {}

    def restore(self, tenant_id: str, balance: Balance) -> None:
        """Starts a tenant from a balance kept elsewhere instead of a full bucket."""
        self._balances[tenant_id] = Balance(tokens=balance.tokens, at_s=balance.at_s)

    def admit(
        self, tenant_id: str, limits: TenantLimits, reserved_tokens: int, now_s: float
    ) -> Reservation:
        """Starts a request that may cost up to `reserved_tokens`; it must be settled in the end.

        Raises QuotaExceededError, with the time to wait where waiting helps.
        """
        if self.num_running(tenant_id) >= limits.max_concurrent_requests:
            raise QuotaExceededError(
                f"{limits.max_concurrent_requests} requests of this tenant are running, "
                "the most it may run at once: wait for one to end",
                metadata={"max_concurrent_requests": str(limits.max_concurrent_requests)},
                retry_after_s=_CONCURRENCY_RETRY_S,
            )
        balance = self._refilled(tenant_id, limits, now_s)
        if reserved_tokens > limits.max_tokens_per_minute:
            raise QuotaExceededError(
                f"the request could cost {reserved_tokens} tokens, but this tenant may use "
                f"{limits.max_tokens_per_minute} a minute: lower max_tokens or shorten the prompt",
                metadata={
                    "reserved_tokens": str(reserved_tokens),
                    "max_tokens_per_minute": str(limits.max_tokens_per_minute),
                },
            )
        if reserved_tokens > balance.tokens:
            missing = reserved_tokens - balance.tokens
            raise QuotaExceededError(
                f"this tenant's {limits.max_tokens_per_minute} tokens a minute are used up: "
                "wait, or lower max_tokens",
                metadata={"max_tokens_per_minute": str(limits.max_tokens_per_minute)},
                retry_after_s=missing * _MINUTE_S / limits.max_tokens_per_minute,
            )
        balance.tokens -= reserved_tokens
        self._num_running[tenant_id] = self.num_running(tenant_id) + 1
        return Reservation(tenant_id=tenant_id, reserved_tokens=reserved_tokens)

    def settle(self, reservation: Reservation, used_tokens: int) -> None:
        """Ends a request and puts back what it did not use. Calling it again changes nothing."""
        if reservation.phase is _Phase.SETTLED:
            return
        reservation.phase = _Phase.SETTLED
        tenant_id = reservation.tenant_id
        # The cap of the bucket is applied at the next refill, with the limits of that moment.
        self._balances[tenant_id].tokens += reservation.reserved_tokens - used_tokens
        remaining = self._num_running[tenant_id] - 1
        if remaining:
            self._num_running[tenant_id] = remaining
        else:
            del self._num_running[tenant_id]

    def num_running(self, tenant_id: str) -> int:
        """Requests of the tenant that are admitted and not settled."""
        return self._num_running.get(tenant_id, 0)

    def balance(self, tenant_id: str) -> Balance | None:
        """The tenant's balance as last reckoned, None when it never asked for anything."""
        return self._balances.get(tenant_id)

    def _refilled(self, tenant_id: str, limits: TenantLimits, now_s: float) -> Balance:
        capacity = float(limits.max_tokens_per_minute)
        balance = self._balances.setdefault(tenant_id, Balance(tokens=capacity, at_s=now_s))
        # A clock that went back gives nothing, and can not give the same second twice.
        elapsed_s = max(0.0, now_s - balance.at_s)
        balance.tokens = min(capacity, balance.tokens + elapsed_s * capacity / _MINUTE_S)
        balance.at_s = max(balance.at_s, now_s)
        return balance
