"""What is measured of every engine: prompts, adapters of each stream, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NUM_STREAMS = 8
NUM_ADAPTERS = 8
RANK = 16
"""Of the adapters on all linear modules, which every engine gets."""
SMALL_RANK = 8
"""Of the adapters on q and v, which only ours gets, after the others."""
PROMPT_TOKENS = 64
PREFILL_TOKENS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One figure of an engine, in tokens a second."""

    name: str
    adapters: Sequence[int | None]
    """Adapter of each stream; None is the base model."""
    is_prefill: bool = False
    """One stream's prompt of PREFILL_TOKENS, else decoding from prompts of PROMPT_TOKENS."""
    only_ours: bool = False

    @property
    def uses_adapters(self) -> bool:
        """Whether an engine that serves the base instead would look fast here."""
        return any(adapter is not None for adapter in self.adapters)


def _distinct(count: int) -> list[int | None]:
    return [stream % count for stream in range(NUM_STREAMS)]


ONE_BASE = Case(name="1 stream, base", adapters=[None])
ONE_ADAPTER = Case(name="1 stream, adapter", adapters=[0])
EIGHT_BASE = Case(name="8 streams, base", adapters=[None] * NUM_STREAMS)
DISTINCT = {
    count: Case(name=f"8 streams, {count} adapter{'s' * (count > 1)}", adapters=_distinct(count))
    for count in (1, 2, 4, 8)
}
"""Number of different adapters among 8 streams -> its case."""
EIGHT_SMALL = Case(
    name="8 streams, 8 adapters of q and v",
    adapters=[NUM_ADAPTERS + stream for stream in range(NUM_STREAMS)],
    only_ours=True,
)
PREFILL_BASE = Case(name="prefill, base", adapters=[None], is_prefill=True)
PREFILL_ADAPTER = Case(name="prefill, adapter", adapters=[0], is_prefill=True)

CASES = (
    ONE_BASE,
    ONE_ADAPTER,
    EIGHT_BASE,
    *DISTINCT.values(),
    EIGHT_SMALL,
    PREFILL_BASE,
    PREFILL_ADAPTER,
)
SHAPE_CASES = (ONE_BASE, EIGHT_BASE, DISTINCT[8], PREFILL_BASE, PREFILL_ADAPTER)
"""For models of random weights, whose runs are long."""
