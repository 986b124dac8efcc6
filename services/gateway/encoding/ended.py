"""What is known of an encoding once it has ended, or was refused before it began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.gateway.encoding.request import Operation
from services.gateway.ended_request import EndedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEncoding(EndedRequest):
    """One end. Nothing the user typed is in it."""

    operation: Operation
    num_texts: int


EndObserver = Callable[[EndedEncoding], None]
"""Called on the event loop, once for each end; must be quick and must not raise."""
