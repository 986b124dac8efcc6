"""Latency statistics of a run: TTFT, TPOT, throughput, attainment.

TTFT is measured from the SCHEDULED arrival, so a late client cannot hide a queue. TPOT is the
mean time of an output token after the first, one value a request.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PUBLISHED_SLO_S = 6.0
"""First token within 6 s of the scheduled arrival (S-LoRA, EdgeLoRA)."""
_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What happened to one request. Times are seconds of one monotonic clock."""

    scheduled_s: float
    sent_s: float
    first_token_s: float | None
    """None when no token came."""
    finished_s: float | None
    """None when the stream did not finish."""
    num_input_tokens: int
    num_output_tokens: int
    queue_s: float | None = None
    """What it waited for its turn, by the node; None when it did not finish."""
    adapter_load_s: float | None = None
    """What it waited for its adapter, by the node; 0 when that was in memory."""
    error: str | None = None
    """Name of the status of a stream that ended in an error."""
    reason: str | None = None
    """Of that error: the name of its `ErrorReason`, without the prefix."""
    retry_after_s: float | None = None
    """What that error told to wait."""
    rule: str | None = None
    """The rule that error named: why the device's state refused the request."""
    failed_s: float | None = None
    """When that error came."""
    was_accepted: bool = False
    """Whether the node said that it had queued the request."""
    num_ends: int = 0
    """How often the stream ended: in `Done`, or in an error. Not once is a lost request."""
    degradations: Sequence[str] = ()
    """What was served otherwise than asked: a step and the adapter, `adapter_off large`."""
    token_times_s: Sequence[float] = ()
    """When each output token came."""

    @property
    def ttft_s(self) -> float | None:
        """First token after the scheduled arrival."""
        return None if self.first_token_s is None else self.first_token_s - self.scheduled_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of an output token after the first; None with fewer than two."""
        if self.first_token_s is None or self.finished_s is None or self.num_output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.num_output_tokens - 1)


def percentile(values: Sequence[float], rank: float) -> float | None:
    """Returns the rank-th percentile (0 to 100), linear between ranks; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * rank / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def attainment(records: Sequence[RequestRecord], slo_s: float) -> float | None:
    """Share of all requests that finished and whose first token came within the SLO (strictly)."""
    if not records:
        return None
    met = [
        record.finished_s is not None and record.ttft_s is not None and record.ttft_s < slo_s
        for record in records
    ]
    return sum(met) / len(met)


def scaled_slo_s(capacity_rps: float) -> float:
    """Returns the SLO scaled to a device: three mean gaps at its capacity (requests a second).

    The published 6 s is three mean gaps of the published preset's 0.5 requests a second.
    """
    return 3 / capacity_rps


def summarise(records: Sequence[RequestRecord], slos_s: dict[str, float]) -> dict[str, Any]:
    """Returns counts, throughput, TTFT and TPOT percentiles (ms) and attainment for each SLO.

    Throughput counts from the first scheduled arrival to the last finish.
    """
    finished = [record for record in records if record.finished_s is not None]
    ends = [record.finished_s for record in finished if record.finished_s is not None]
    elapsed_s = max(ends) - min(record.scheduled_s for record in records) if ends else None
    output_tokens = sum(record.num_output_tokens for record in finished)
    summary: dict[str, Any] = {
        "requests": len(records),
        "finished": len(finished),
        "errors": _count_errors(records),
        "elapsed_s": _round(elapsed_s, 3),
        "requests_per_s": _round(len(finished) / elapsed_s if elapsed_s else None, 3),
        "output_tokens_per_s": _round(output_tokens / elapsed_s if elapsed_s else None, 2),
    }
    ttfts_s = [record.ttft_s for record in finished if record.ttft_s is not None]
    tpots_s = [record.tpot_s for record in finished if record.tpot_s is not None]
    for name, values_s in (("ttft", ttfts_s), ("tpot", tpots_s)):
        for rank in _PERCENTILES:
            value_s = percentile(values_s, rank)
            summary[f"{name}_p{rank}_ms"] = _round(value_s and value_s * 1000, 2)
    for name, slo_s in slos_s.items():
        summary[f"attainment_{name}"] = _round(attainment(records, slo_s), 4)
    lags_s = [record.sent_s - record.scheduled_s for record in records]
    summary["send_lag_p99_ms"] = _round((percentile(lags_s, 99) or 0.0) * 1000, 2)
    return summary


def median(values: Sequence[float]) -> float:
    """Returns the median of at least one value."""
    return statistics.median(values)


def negative_log_likelihood(logits: NDArray[np.float32], token_ids: NDArray[np.int32]) -> float:
    """Summed -log p of token_ids[i], [rows], under logits[i], [rows, vocab_size]."""
    best = logits.max(axis=1, keepdims=True)
    totals = np.log(np.exp(logits - best).sum(axis=1, dtype=np.float64))
    chosen = np.take_along_axis(logits, token_ids[:, None], axis=1) - best
    return float((totals - chosen[:, 0]).sum())


def _count_errors(records: Sequence[RequestRecord]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        if record.error is not None:
            counts[record.error] = counts.get(record.error, 0) + 1
    return dict(sorted(counts.items()))


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
