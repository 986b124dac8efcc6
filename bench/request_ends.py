"""How requests ended: answered, refused as declared, failed, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bench.measure import RequestRecord

_REFUSALS = frozenset({"QUEUE_FULL", "RESOURCE_PRESSURE", "TENANT_QUOTA_EXCEEDED"})


class End(Enum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"
    """Declared: RESOURCE_EXHAUSTED with the time to wait, before its first token."""
    ERROR = "error"
    """Any other error."""
    LOST = "lost"
    """Its stream closed without `Done` and without an error, or ended more than once."""


def end_of(record: RequestRecord) -> End:
    """What became of one request."""
    if record.num_ends != 1:
        return End.LOST
    if record.error is None:
        return End.DONE
    is_declared = record.reason in _REFUSALS and record.retry_after_s is not None
    return End.REFUSED if is_declared and record.first_token_s is None else End.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Counts over many requests."""

    num_sent: int
    num_accepted: int
    num_accepted_ended_once: int
    num_done: int
    num_refused: int
    num_errors: int
    num_lost: int
    errors: dict[str, int]
    """By reason, of those that were no declared refusals."""
    refused_by: dict[str, int]
    """By the rule that refused, else by reason."""

    @classmethod
    def of(cls, records: Sequence[RequestRecord]) -> Ends:
        """Counts them."""
        ends = [(end_of(record), record) for record in records]
        counts = Counter(end for end, _ in ends)
        accepted = [record for record in records if record.was_accepted]
        return cls(
            num_sent=len(records),
            num_accepted=len(accepted),
            num_accepted_ended_once=sum(record.num_ends == 1 for record in accepted),
            num_done=counts[End.DONE],
            num_refused=counts[End.REFUSED],
            num_errors=counts[End.ERROR],
            num_lost=counts[End.LOST],
            errors=_sorted(Counter(one.reason or "?" for end, one in ends if end is End.ERROR)),
            refused_by=_sorted(
                Counter(one.rule or one.reason or "?" for end, one in ends if end is End.REFUSED)
            ),
        )

    def document(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {
            "sent": self.num_sent,
            "accepted": self.num_accepted,
            "accepted_ended_once": self.num_accepted_ended_once,
            "done": self.num_done,
            "refused": self.num_refused,
            "refused_by": self.refused_by,
            "errors": self.num_errors,
            "errors_by": self.errors,
            "lost": self.num_lost,
        }


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
