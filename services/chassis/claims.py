"""Tenant claims and tickets: the only proofs of identity and permission between services."""

from __future__ import annotations

from edgelora.errors import TicketExpiredError, UnauthenticatedError
from edgelora.v1.ticket_pb2 import Sealed, TenantClaim, Ticket
from services.chassis.sealing import Sealer


def seal_claim(
    sealer: Sealer, *, tenant_id: str, request_id: str, expires_at_boot_s: float
) -> Sealed:
    """Seals who is asking. Only the gateway's authentication does this."""
    return sealer.seal(
        TenantClaim(tenant_id=tenant_id, request_id=request_id, expires_at_boot_s=expires_at_boot_s)
    )


def open_claim(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> TenantClaim:
    """Opens a claim. Raises UnauthenticatedError when it is forged, empty or expired."""
    claim = sealer.open(sealed, TenantClaim)
    if not claim.tenant_id or now_boot_s >= claim.expires_at_boot_s:
        raise UnauthenticatedError("the tenant claim has expired: send the request again")
    return claim


def seal_ticket(sealer: Sealer, ticket: Ticket) -> Sealed:
    """Seals a permission to run. Only the scheduler does this."""
    return sealer.seal(ticket)


def open_ticket(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> Ticket:
    """Opens a ticket.

    Raises UnauthenticatedError when it is forged, TicketExpiredError when its lease has ended.
    """
    ticket = sealer.open(sealed, Ticket)
    if now_boot_s >= ticket.expires_at_boot_s:
        raise TicketExpiredError("the ticket has expired: send the request again")
    return ticket
