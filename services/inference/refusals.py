"""Remembers which adapters could not be served, so that they are not tried again at once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from edgelora.errors import EdgeLoraError

_MAX_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an adapter was refused, and until when that stands."""

    error: EdgeLoraError
    expires_s: float


class Refusals:
    """Refusals by digest, each for a fixed time, for one tenant or for all.

    What could not be fetched may be another tenant's to have: each has a package of its own.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._refusals: dict[tuple[str, str | None], Refusal] = {}
        """By digest and tenant."""

    def add(
        self, digest: str, error: EdgeLoraError, now_s: float, *, tenant_id: str | None = None
    ) -> None:
        """Remembers a refusal from now on; the oldest give way when there are too many.

        `tenant_id`: None when it concerns all.
        """
        key = digest, tenant_id
        self._refusals.pop(key, None)
        self._refusals[key] = Refusal(error, now_s + self._hold_s)
        if len(self._refusals) > _MAX_REMEMBERED:
            del self._refusals[next(iter(self._refusals))]

    def find(self, digest: str, tenant_id: str, now_s: float) -> EdgeLoraError | None:
        """The error to give a tenant again, or None when the adapter may be tried."""
        for key in ((digest, None), (digest, tenant_id)):
            refusal = self._refusals.get(key)
            if refusal is not None and now_s < refusal.expires_s:
                break
        else:
            return None
        # A new one each time: an exception raised again and again would keep every traceback.
        error = refusal.error
        return type(error)(error.message, field=error.field, metadata=error.metadata)

    def current(self, now_s: float) -> dict[str, EdgeLoraError]:
        """All that stand now, for whomever; expired ones are forgotten."""
        self._refusals = {
            key: refusal for key, refusal in self._refusals.items() if now_s < refusal.expires_s
        }
        return {digest: refusal.error for (digest, _), refusal in self._refusals.items()}
