"""Keeps tries apart: one in a while for each package, and none for a remote that is gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure
from services.adapter_store.remotes.try_book import TryBook

_REMOTE_WIDE = {FailureKind.UNREACHABLE, FailureKind.BUSY}


class TryLedger:
    """Failures of packages and layers, by key, and of their remotes as a whole."""

    def __init__(
        self, book: TryBook, clock_s: Callable[[], float], counters: RemoteCounters
    ) -> None:
        self._book = book
        self._clock_s = clock_s
        self._counters = counters

    def check(self, remote: str, key: Hashable) -> None:
        """Raises, as an error for the tenant, what stands against a try now."""
        now_s = self._clock_s()
        standing = self._book.standing(remote, now_s) or self._book.standing(key, now_s)
        if standing is not None:
            self._counters.num_negative_hits += 1
            failure, left_s = standing
            raise failure.to_error(left_s)

    def note(self, remote: str, key: Hashable, failure: RemoteFailure) -> None:
        """Takes a failure down."""
        self._counters.num_failures[failure.kind] += 1
        now_s = self._clock_s()
        self._book.note(key, failure, now_s)
        if failure.kind in _REMOTE_WIDE:
            self._book.note(remote, failure, now_s)

    def clear(self, remote: str, key: Hashable) -> None:
        """Forgets the failures of a key and its remote: it works."""
        self._book.clear(key)
        self._book.clear(remote)

    def delay_s(self, remote: str, key: Hashable) -> float | None:
        """Seconds until a try is allowed again; None for now."""
        now_s = self._clock_s()
        standing = (self._book.standing(key, now_s), self._book.standing(remote, now_s))
        return max((left_s for _, left_s in filter(None, standing)), default=None)
