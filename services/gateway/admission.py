"""Who may start a request now: a cap on running requests and two token buckets for each tenant.

Pure: no clock, no I/O; the time is passed in. What a request could cost at most is taken out of
the buckets when it starts, and the tokens it did not use are put back when it ends, so that any
number of requests started at once can not use more than the quota.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from edgelora.errors import QuotaExceededError
from services.gateway.tenant import TenantQuotas

_CONCURRENCY_RETRY_S = 1.0
_MINUTE_S = 60.0


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
    """What is left in a tenant's buckets, and when that was reckoned. Below 0 it is a debt."""

    tokens: float
    requests: float
    at_s: float


class AdmissionControl:
    """Counts what every tenant runs and has left. Lives on one event loop and needs no locks."""

    def __init__(self) -> None:
        self._balances: dict[str, Balance] = {}
        self._num_running: dict[str, int] = {}

    def restore(self, tenant_id: str, balance: Balance) -> None:
        """Starts a tenant from a balance kept elsewhere instead of full buckets."""
        self._balances[tenant_id] = replace(balance)

    def admit(
        self, tenant_id: str, quotas: TenantQuotas, reserved_tokens: int, now_s: float
    ) -> Reservation:
        """Starts a request that may cost up to `reserved_tokens`; it must be settled in the end.

        Raises QuotaExceededError with the quota as its field, and with the time to wait where
        waiting helps. A refused request takes nothing.
        """
        most_running = quotas.max_concurrent_requests
        if self.num_running(tenant_id) >= most_running:
            raise _exceeded(
                "max_concurrent_requests",
                most_running,
                f"this tenant runs as many requests as it may at once ({most_running}): wait for "
                "one to end",
                retry_after_s=_CONCURRENCY_RETRY_S,
            )
        most_tokens = quotas.max_tokens_per_minute
        if reserved_tokens > most_tokens:
            raise _exceeded(
                "max_tokens_per_minute",
                most_tokens,
                f"the request could cost {reserved_tokens} tokens, but this tenant may use "
                f"{most_tokens} a minute: lower max_tokens or shorten the prompt",
                reserved_tokens=reserved_tokens,
            )
        balance = self._refilled(tenant_id, quotas, now_s)
        if reserved_tokens > balance.tokens:
            raise _exceeded(
                "max_tokens_per_minute",
                most_tokens,
                f"this tenant's {most_tokens} tokens a minute are used up: wait, or lower "
                "max_tokens",
                retry_after_s=(reserved_tokens - balance.tokens) * _MINUTE_S / most_tokens,
            )
        most_requests = quotas.max_requests_per_minute
        if balance.requests < 1:
            raise _exceeded(
                "max_requests_per_minute",
                most_requests,
                f"this tenant's {most_requests} requests a minute are used up: wait",
                retry_after_s=(1 - balance.requests) * _MINUTE_S / most_requests,
            )
        balance.tokens -= reserved_tokens
        balance.requests -= 1
        self._num_running[tenant_id] = self.num_running(tenant_id) + 1
        return Reservation(tenant_id=tenant_id, reserved_tokens=reserved_tokens)

    def settle(self, reservation: Reservation, used_tokens: int) -> None:
        """Ends a request and puts back the tokens it did not use. Again it changes nothing."""
        if reservation.phase is _Phase.SETTLED:
            return
        reservation.phase = _Phase.SETTLED
        tenant_id = reservation.tenant_id
        # The cap of the bucket is applied at the next refill, with the quotas of that moment.
        # What claims to have used less than nothing used nothing.
        self._balances[tenant_id].tokens += reservation.reserved_tokens - max(0, used_tokens)
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

    def _refilled(self, tenant_id: str, quotas: TenantQuotas, now_s: float) -> Balance:
        tokens, requests = (
            float(quotas.max_tokens_per_minute),
            float(quotas.max_requests_per_minute),
        )
        balance = self._balances.setdefault(
            tenant_id, Balance(tokens=tokens, requests=requests, at_s=now_s)
        )
        # A clock that went back gives nothing, and can not give the same second twice.
        minutes = max(0.0, now_s - balance.at_s) / _MINUTE_S
        balance.tokens = min(tokens, balance.tokens + minutes * tokens)
        balance.requests = min(requests, balance.requests + minutes * requests)
        balance.at_s = max(balance.at_s, now_s)
        return balance


def _exceeded(
    quota: str, limit: int, message: str, *, retry_after_s: float | None = None, **numbers: int
) -> QuotaExceededError:
    metadata = {name: str(value) for name, value in {quota: limit, **numbers}.items()}
    return QuotaExceededError(message, field=quota, metadata=metadata, retry_after_s=retry_after_s)
