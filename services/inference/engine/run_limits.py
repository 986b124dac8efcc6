"""How much of itself the engine uses; less than everything while the device is hot."""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Bounds that may change between two steps."""

    max_num_seqs: int
    """Sequences in one step."""
    max_prefill_tokens: int
    """Prompt tokens in one step."""
    num_threads: int
    """Threads the back end computes with."""

    def reduced(self, *, seqs: float, prefill: float, threads: float) -> RunLimits:
        """Shares of these limits, each above 0 to 1, rounded down; at least one of each is kept."""
        return RunLimits(
            max_num_seqs=_share_of(self.max_num_seqs, seqs),
            max_prefill_tokens=_share_of(self.max_prefill_tokens, prefill),
            num_threads=_share_of(self.num_threads, threads),
        )


def _share_of(count: int, share: float) -> int:
    return max(1, int(count * share + _ROUNDING))
