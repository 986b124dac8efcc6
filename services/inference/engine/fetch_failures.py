"""Whom it concerns that an adapter could not be fetched. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from edgelora.errors import (
    EdgeLoraError,
    PermissionDeniedError,
    TicketExpiredError,
    UnauthenticatedError,
)

_TICKET_ERRORS = (TicketExpiredError, UnauthenticatedError, PermissionDeniedError)
"""Faults of the ticket an adapter was fetched with, not of the adapter."""


class TicketUser(Protocol):
    """A request that names an adapter."""

    @property
    def ticket(self) -> object:
        """What it may be fetched with."""
        ...

    @property
    def tenant_id(self) -> str | None:
        """Whose it is."""
        ...


UserT = TypeVar("UserT", bound=TicketUser)


def split_users(
    users: Iterable[UserT], ticket: object, error: EdgeLoraError
) -> tuple[list[UserT], list[UserT]]:
    """Who fails with an adapter that could not be fetched with a ticket, and who may try its own.

    A fault of the ticket costs only those that came with it, any other one those of its tenant,
    whose package or registration it may be.
    """
    users = list(users)
    tenants = {each.tenant_id for each in users if each.ticket is ticket}
    is_ticket_fault = isinstance(error, _TICKET_ERRORS)
    failed: list[UserT] = []
    others: list[UserT] = []
    for each in users:
        is_theirs = each.tenant_id in tenants and not is_ticket_fault
        (failed if each.ticket is ticket or is_theirs else others).append(each)
    return failed, others
