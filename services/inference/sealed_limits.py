"""Run limits as the scheduler seals them for this worker."""

from __future__ import annotations

from edgelora.errors import InvalidRequestError, PermissionDeniedError
from edgelora.v1.ticket_pb2 import RunLimits, Sealed
from services.chassis.claims import open_run_limits
from services.chassis.sealing import Sealer

_SHARES = ("seqs_share", "prefill_share", "threads_share")


class SealedLimits:
    """Opens them; what is older than the newest is refused."""

    def __init__(self, sealer: Sealer, worker: str) -> None:
        self._sealer = sealer
        self._worker = worker
        self._generation = 0

    def open(self, sealed: Sealed, now_boot_s: float) -> RunLimits:
        """Returns limits to be set now. The newest may come again.

        Raises UnauthenticatedError when they are forged or void, PermissionDeniedError when they
        are another worker's or older than the newest, InvalidRequestError for a share that is not
        above 0 to 1.
        """
        limits = open_run_limits(self._sealer, sealed, now_boot_s)
        if limits.worker != self._worker:
            raise PermissionDeniedError("the run limits are for another worker")
        if limits.generation < self._generation:
            raise PermissionDeniedError("the run limits are older than those in force")
        for name in _SHARES:
            if not 0.0 < getattr(limits, name) <= 1.0:
                field = f"limits.{name}"
                raise InvalidRequestError(f"{field} must be above 0 to 1", field=field)
        self._generation = limits.generation
        return limits
