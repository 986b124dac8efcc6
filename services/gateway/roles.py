"""What a tenant may do, by its role."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from edgelora.errors import PermissionDeniedError

if TYPE_CHECKING:
    from services.gateway.authentication import Caller


class Role(IntEnum):
    """Each may do all the one before it may. The numbers are those of the proto."""

    USER = 1
    """Generate, list, see the status."""
    AUTHOR = 2
    """Register, install, name, pin, warm up and delete adapters of its own."""
    TRUSTED = 3
    """Bound its output by regular expressions and grammars of its own."""


def require(caller: Caller, role: Role) -> None:
    """Raises PermissionDeniedError when the caller's role is lower.

    Asked before anything is looked up or checked, so that a refusal tells nothing of what exists.
    """
    if caller.tenant.role < role:
        raise PermissionDeniedError(
            f"this takes the role {role.name.lower()}, and this tenant's is "
            f"{caller.tenant.role.name.lower()}: ask the operator for another role",
            metadata={"role": caller.tenant.role.name.lower(), "needed": role.name.lower()},
        )
