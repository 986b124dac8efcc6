"""What allows a worker to fetch: the scheduler's ticket, or this store's own warm-up permit."""

from __future__ import annotations

from dataclasses import dataclass

from edgelora.errors import TicketExpiredError, UnauthenticatedError
from edgelora.v1.ticket_pb2 import Sealed, WarmUpPermit
from services.chassis.claims import open_ticket
from services.chassis.sealing import Sealer

_PERMIT_LIFE_S = 60.0


@dataclass(frozen=True, slots=True)
class Permission:
    """For whom what may be fetched."""

    tenant_id: str
    digests: tuple[str, ...]


def seal_permit(
    sealer: Sealer, *, tenant_id: str, digest: str, worker: str, now_boot_s: float
) -> Sealed:
    """Allows a worker to fetch one adapter ahead of use; it allows no request."""
    return sealer.seal(
        WarmUpPermit(
            tenant_id=tenant_id,
            digest=digest,
            worker=worker,
            expires_at_boot_s=now_boot_s + _PERMIT_LIFE_S,
        )
    )


def open_permission(sealer: Sealer, sealed: Sealed, now_boot_s: float) -> Permission:
    """Opens either kind; the seal says which it is.

    Raises UnauthenticatedError when it is forged, TicketExpiredError when its time has passed.
    """
    try:
        permit = sealer.open(sealed, WarmUpPermit)
    except UnauthenticatedError:
        ticket = open_ticket(sealer, sealed, now_boot_s)
        digests = tuple(adapter.digest for adapter in ticket.adapters)
        return Permission(ticket.tenant_id, digests)
    if now_boot_s >= permit.expires_at_boot_s:
        raise TicketExpiredError("the warm-up permit has expired")
    return Permission(permit.tenant_id, (permit.digest,))
