"""How fast the node answers one class, from what its released leases took. Pure.

An estimate needs a few answers and is forgotten when none has ended for a while: whatever is not
known refuses nobody, and a node whose estimate refuses everybody soon knows nothing any more.

    lease_s         mean time a place was held
    first_token_s   median time from the grant to the first token
    token_s         median time of each further token
    short_answer    shortest answer, in tokens

each over the last 16 leases of the class. Medians, so that one slow load of an adapter refuses
nobody; the mean for the leases, because it is what places come free by.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import fmean, median

_NUM_KEPT = 16
_LEAST_KNOWN = 4
_FORGOTTEN_AFTER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a granted request."""

    num_output_tokens: int
    first_token_s: float | None
    """From the grant to the first token; None when none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the next request of the class may expect, in seconds."""

    lease_s: float
    first_token_s: float
    token_s: float
    short_answer_tokens: int

    def wait_s(self, num_ahead: int, num_places: int) -> float:
        """Returns the time until a place comes free with `num_ahead` requests before this one.

        `num_places` places come free one by one, evenly spread: half a turn to the first.
        """
        return (num_ahead + 0.5) * self.lease_s / num_places

    def shortest_answer_s(self, max_output_tokens: int) -> float:
        """Returns the time from the grant to the end of the shortest likely answer.

        That is the shortest of the last answers, or all the caller wants if that is less; its
        first token takes its time in any case.
        """
        num_tokens = max(1, min(self.short_answer_tokens, max_output_tokens))
        return self.first_token_s + (num_tokens - 1) * self.token_s


class Pace:
    """The last leases of one class."""

    def __init__(self) -> None:
        self._lease_s: deque[float] = deque(maxlen=_NUM_KEPT)
        self._first_token_s: deque[float] = deque(maxlen=_NUM_KEPT)
        self._token_s: deque[float] = deque(maxlen=_NUM_KEPT)
        self._num_tokens: deque[int] = deque(maxlen=_NUM_KEPT)
        self._last_s = 0.0

    def record(self, answer: Answer, lease_s: float, now_s: float) -> None:
        """Adds what became of a lease that was held for `lease_s`.

        One that ended without a token says only that the first takes longer than that.
        """
        self._last_s = now_s
        self._lease_s.append(lease_s)
        if answer.first_token_s is None:
            if self._first_token_s and lease_s > median(self._first_token_s):
                self._first_token_s.append(lease_s)
            return
        first_token_s = min(answer.first_token_s, lease_s)
        self._first_token_s.append(first_token_s)
        self._num_tokens.append(answer.num_output_tokens)
        if answer.num_output_tokens > 1:
            self._token_s.append((lease_s - first_token_s) / (answer.num_output_tokens - 1))

    def estimate(self, now_s: float) -> Estimate | None:
        """Returns what is known; None when that is too little, or too old."""
        is_old = now_s >= self._last_s + _FORGOTTEN_AFTER_S
        if is_old or len(self._first_token_s) < _LEAST_KNOWN:
            return None
        return Estimate(
            lease_s=fmean(self._lease_s),
            first_token_s=median(self._first_token_s),
            token_s=median(self._token_s) if self._token_s else 0.0,
            short_answer_tokens=min(self._num_tokens),
        )
