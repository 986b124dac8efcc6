"""How evenly a node serves: tokens served in a stretch of time, Jain's index, spread of waits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench.measure import RequestRecord, percentile


def served_tokens(records: Sequence[RequestRecord], from_s: float, until_s: float) -> int:
    """Tokens served within [from_s, until_s): an output token when it comes, a prompt's with the
    first of them. Prompts of requests that did not finish have no known length and count 0.
    """
    total = 0
    for record in records:
        total += sum(from_s <= time_s < until_s for time_s in record.token_times_s)
        if record.first_token_s is not None and from_s <= record.first_token_s < until_s:
            total += record.num_input_tokens
    return total


def jain_index(shares: Sequence[float]) -> float | None:
    """(sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has all (Jain, Chiu and Hawe,
    DEC-TR-301, 1984). None when nobody has anything.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def longest_gap_s(records: Sequence[RequestRecord], from_s: float, until_s: float) -> float:
    """Longest stretch of [from_s, until_s] in which no first token came."""
    came_s = sorted(
        one.first_token_s
        for one in records
        if one.first_token_s is not None and from_s < one.first_token_s < until_s
    )
    return max(later - earlier for earlier, later in pairwise([from_s, *came_s, until_s]))


def waits_s(records: Sequence[RequestRecord]) -> list[float]:
    """From the scheduled arrival to the first token, of those that finished."""
    return [
        record.ttft_s
        for record in records
        if record.finished_s is not None and record.ttft_s is not None
    ]


def spread(values_s: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation of the population, p50, p99 and maximum in milliseconds."""
    if not values_s:
        return dict.fromkeys(("mean_ms", "std_ms", "p50_ms", "p99_ms", "max_ms"))
    return {
        "mean_ms": milliseconds(statistics.fmean(values_s)),
        "std_ms": milliseconds(statistics.pstdev(values_s)),
        "p50_ms": milliseconds(percentile(values_s, 50)),
        "p99_ms": milliseconds(percentile(values_s, 99)),
        "max_ms": milliseconds(max(values_s)),
    }


def reduction(before: float | None, after: float | None) -> float | None:
    """1 - after / before; None where it cannot be said."""
    if not before or after is None:
        return None
    return round(1 - after / before, 4)


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base; None where it cannot be said."""
    return round(value / base, 3) if value is not None and base else None


def milliseconds(seconds: float | None) -> float | None:
    """For people; None stays None."""
    return None if seconds is None else round(seconds * 1000, 2)
