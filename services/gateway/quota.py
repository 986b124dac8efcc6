"""Admission with a memory: every change of a balance is written to the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from services.chassis.logs import get_logger
from services.chassis.sealing import boot_clock_s
from services.gateway.admission import AdmissionControl, Reservation
from services.gateway.quota_ledger import QuotaLedger
from services.gateway.tenant import Tenant


class Quota:
    """What the tenants may still use."""

    def __init__(self, ledger: QuotaLedger, boot_clock: Callable[[], float] = boot_clock_s) -> None:
        self._ledger = ledger
        self._boot_clock = boot_clock
        self._admission = AdmissionControl()
        for tenant_id, balance in ledger.load(boot_clock()).items():
            self._admission.restore(tenant_id, balance)

    def admit(self, tenant: Tenant, reserved_tokens: int) -> Reservation:
        """Starts a request; `settle` must follow. Raises QuotaExceededError."""
        reservation = self._admission.admit(
            tenant.tenant_id, tenant.quotas, reserved_tokens, self._boot_clock()
        )
        self._save(tenant.tenant_id)
        return reservation

    def settle(self, reservation: Reservation, used_tokens: int) -> None:
        """Ends a request and puts back the tokens it did not use. Again it changes nothing."""
        self._admission.settle(reservation, used_tokens)
        self._save(reservation.tenant_id)

    def num_running(self, tenant_id: str) -> int:
        """Requests of the tenant that are running."""
        return self._admission.num_running(tenant_id)

    def _save(self, tenant_id: str) -> None:
        balance = self._admission.balance(tenant_id)
        if balance is None:
            return
        try:
            self._ledger.save(tenant_id, balance)
        except sqlite3.Error as error:
            # Storage may be full. What is counted here holds; no request may hang or leak for it.
            get_logger().warning("quota_not_written", error=type(error).__name__)
