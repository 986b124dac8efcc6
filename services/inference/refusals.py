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
    """Refusals by digest, each for a fixed time."""

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._by_digest: dict[str, Refusal] = {}

    def add(self, digest: str, error: EdgeLoraError, now_s: float) -> None:
        """Remembers a refusal from now on; the oldest give way when there are too many."""
        self._by_digest.pop(digest, None)
        self._by_digest[digest] = Refusal(error, now_s + self._hold_s)
        if len(self._by_digest) > _MAX_REMEMBERED:
            del self._by_digest[next(iter(self._by_digest))]

    def find(self, digest: str, now_s: float) -> EdgeLoraError | None:
        """The error to give again, or None when the adapter may be tried."""
        refusal = self._by_digest.get(digest)
        if refusal is None or now_s >= refusal.expires_s:
            return None
        # A new one each time: an exception raised again and again would keep every traceback.
        error = refusal.error
        return type(error)(error.message, field=error.field, metadata=error.metadata)

    def current(self, now_s: float) -> dict[str, EdgeLoraError]:
        """All that stand now; expired ones are forgotten."""
        self._by_digest = {
            digest: refusal
            for digest, refusal in self._by_digest.items()
            if now_s < refusal.expires_s
        }
        return {digest: refusal.error for digest, refusal in self._by_digest.items()}
