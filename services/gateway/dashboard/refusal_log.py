"""The last requests that got no whole answer, and why. Nothing a user typed is in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from edgelora.error_tree import CancelledRequestError, EdgeLoraError
from services.gateway.ended_request import EndedRequest

_MAX_REFUSALS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One request that was refused, or failed."""

    at_unix_s: float
    tenant_id: str
    priority: int
    """A PriorityClass."""
    reason: str
    """Name of an ErrorReason."""
    rule: str | None
    """The rule of the device's pressure, or the name of the quota, that was the cause."""
    retry_after_s: float | None


class RefusalLog:
    """The newest 50."""

    def __init__(self, max_refusals: int = _MAX_REFUSALS) -> None:
        self._refusals: deque[Refusal] = deque(maxlen=max_refusals)

    def add(self, at_unix_s: float, ended: EndedRequest) -> None:
        """Takes an end; a whole answer, or a client that left, is no refusal."""
        error = ended.error
        if error is None or isinstance(error, CancelledRequestError):
            return
        # Not its message or field, which may quote the request.
        self._refusals.append(
            Refusal(
                at_unix_s=at_unix_s,
                tenant_id=ended.tenant_id,
                priority=ended.priority,
                reason=error.reason,
                rule=_rule(error),
                retry_after_s=error.retry_after_s,
            )
        )

    def newest_first(self) -> Sequence[Refusal]:
        """All of them."""
        return tuple(reversed(self._refusals))


def _rule(error: EdgeLoraError) -> str | None:
    quotas = (name for name in error.metadata if name.startswith("max_"))
    return error.metadata.get("rule") or next(quotas, None)
