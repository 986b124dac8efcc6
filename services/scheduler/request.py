"""A request as the scheduler sees it: who asks, how urgently, and what it may cost."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Priority(enum.IntEnum):
    """The three classes, most urgent first. The numbers are those of the PriorityClass proto."""

    INTERACTIVE = 1
    BACKGROUND = 2
    BATCH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that waits for a place, or runs."""

    ticket_id: str
    """Unique for the life of the process; the caller learns it only with the grant."""
    tenant_id: str
    request_id: str
    """The gateway's name for the request; unique by convention only, so never a key here."""
    priority: Priority
    estimated_tokens: int
    """Prompt and output tokens it may cost, at least 1: charged at the grant, settled later."""
    max_output_tokens: int
    """Most tokens of its answer, at least 1."""
    asked_at_s: float
    allowed_s: float | None = None
    """How long after `asked_at_s` its caller waits for the whole answer; None: for ever."""
    num_resident: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Worker name -> how many of the request's adapters that worker holds in slots."""
    digests: frozenset[str] = frozenset()
    """The request's adapters; empty: the base model."""

    @property
    def deadline_s(self) -> float | None:
        """When its caller stops waiting; None: never."""
        return None if self.allowed_s is None else self.asked_at_s + self.allowed_s
