"""When something may be tried again, and what to answer until then. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from services.adapter_store.remotes.failures import TRANSIENT, FailureKind, RemoteFailure

_MAX_ENTRIES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Delays between tries, in seconds."""

    first_s: float = 5.0
    """Least time between two tries for the same thing."""
    longest_s: float = 300.0
    """Most that our own back-off reaches; doubled with every failure until then."""
    negative_s: float = 30.0
    """How long an answer that is not likely to change is believed."""
    max_retry_after_s: float = 3600.0
    """Most of a remote's Retry-After that is honoured."""

    def delay_s(self, num_failures: int, failure: RemoteFailure, jitter: float) -> float:
        """The pause after the n-th failure in a row (from 1); jitter is from [0, 1)."""
        if failure.kind not in TRANSIENT and failure.kind is not FailureKind.CORRUPT:
            return self.negative_s
        step_s = min(self.longest_s, self.first_s * 2.0 ** min(num_failures - 1, 30))
        # Never below the first delay: a crowd spreads out, and nobody comes early.
        own_s = step_s + 0.25 * jitter * step_s
        return max(own_s, min(failure.retry_after_s or 0.0, self.max_retry_after_s))


@dataclass(frozen=True, slots=True)
class _Entry:
    failure: RemoteFailure
    num_failures: int
    not_before_s: float


class TryBook:
    """Failures by key, the oldest forgotten when there are too many."""

    def __init__(self, policy: RetryPolicy, random: Callable[[], float]) -> None:
        self._policy = policy
        self._random = random
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def standing(self, key: Hashable, now_s: float) -> tuple[RemoteFailure, float] | None:
        """The failure that still stands for a key, with the seconds that are left of it."""
        entry = self._entries.get(key)
        if entry is None or now_s >= entry.not_before_s:
            return None
        return entry.failure, entry.not_before_s - now_s

    def note(self, key: Hashable, failure: RemoteFailure, now_s: float) -> float:
        """Takes a failure down; returns the seconds until the next try."""
        before = self._entries.pop(key, None)
        num_failures = 1 if before is None else before.num_failures + 1
        delay_s = self._policy.delay_s(num_failures, failure, self._random())
        self._entries[key] = _Entry(failure, num_failures, now_s + delay_s)
        while len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)
        return delay_s

    def clear(self, key: Hashable) -> None:
        """Forgets a key's failures: it worked."""
        self._entries.pop(key, None)
