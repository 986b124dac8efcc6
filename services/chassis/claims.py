"""Tenant claims, tickets and the like: the only proofs of identity and permission between services.

Each says until when it holds, on the node's boot clock; who opens one checks that. A time that is
not a number has passed.
"""

from __future__ import annotations

from edgelora.errors import TicketExpiredError, UnauthenticatedError
from edgelora.v1.monitor_service_pb2 import DeviceReport
from edgelora.v1.ticket_pb2 import OperatorClaim, RunLimits, Sealed, TenantClaim, Ticket
from services.chassis.sealing import Sealer


def seal_claim(
    sealer: Sealer,
    *,
    tenant_id: str,
    request_id: str,
    expires_at_boot_s: float,
    max_adapters: int | None = None,
    max_adapter_bytes: int | None = None,
) -> Sealed:
    """Seals who is asking, and how much it may store; None leaves that to the store.

    Only the gateway's authentication does this.
    """
    return sealer.seal(
        TenantClaim(
            tenant_id=tenant_id,
            request_id=request_id,
            expires_at_boot_s=expires_at_boot_s,
            max_adapters=max_adapters,
            max_adapter_bytes=max_adapter_bytes,
        )
    )


def open_claim(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> TenantClaim:
    """Opens a claim. Raises UnauthenticatedError when it is forged, empty or expired."""
    claim = sealer.open(sealed, TenantClaim)
    if not claim.tenant_id or _has_passed(claim.expires_at_boot_s, now_boot_s):
        raise UnauthenticatedError("the tenant claim has expired: send the request again")
    return claim


def seal_operator_claim(sealer: Sealer, claim: OperatorClaim) -> Sealed:
    """Seals that the operator is asking. Only the gateway does this, for its admin listeners."""
    return sealer.seal(claim)


def open_operator_claim(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> OperatorClaim:
    """Opens the operator's claim. Raises UnauthenticatedError when it is forged or expired."""
    claim = sealer.open(sealed, OperatorClaim)
    if _has_passed(claim.expires_at_boot_s, now_boot_s):
        raise UnauthenticatedError("the operator's claim has expired: send the request again")
    return claim


def seal_ticket(sealer: Sealer, ticket: Ticket) -> Sealed:
    """Seals a permission to run. Only the scheduler does this."""
    return sealer.seal(ticket)


def open_ticket(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> Ticket:
    """Opens a ticket.

    Raises UnauthenticatedError when it is forged, TicketExpiredError when its lease has ended.
    """
    ticket = sealer.open(sealed, Ticket)
    if _has_passed(ticket.expires_at_boot_s, now_boot_s):
        raise TicketExpiredError("the ticket has expired: send the request again")
    return ticket


def seal_run_limits(sealer: Sealer, limits: RunLimits) -> Sealed:
    """Seals how much of itself a worker may use. Only the scheduler does this."""
    return sealer.seal(limits)


def open_run_limits(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> RunLimits:
    """Opens limits. Raises UnauthenticatedError when they are forged or void.

    Whose they are, and whether they are the newest, is for the worker to check.
    """
    limits = sealer.open(sealed, RunLimits)
    if _has_passed(limits.expires_at_boot_s, now_boot_s):
        raise UnauthenticatedError("the run limits are void: send newer ones")
    return limits


def seal_device_report(sealer: Sealer, report: DeviceReport) -> Sealed:
    """Seals what an outside source has measured. Only the gateway's admin service does this."""
    return sealer.seal(report)


def open_device_report(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> DeviceReport:
    """Opens a report. Raises UnauthenticatedError when it is forged or void."""
    report = sealer.open(sealed, DeviceReport)
    if _has_passed(report.expires_at_boot_s, now_boot_s):
        raise UnauthenticatedError("the device report is void: measure again")
    return report


def _has_passed(time_s: float, now_s: float) -> bool:
    return not now_s < time_s  # what is not a number too
