"""What moving an adapter costs: as the benchmark `tiers` measured it, or as stated here.

`tiers` reads blobs that lie in the page cache. After a cold start they do not, so that reading one
from storage is measured here and added to a load.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.warmup_replay import Costs

RESULTS = Path(__file__).parent / "results" / "tiers.json"
_MIB = 2**20
_NUM_READS = 16
STATED = Costs(
    first_token_s=0.0136,
    load_s=0.0115,
    restore_s=0.970,
    flash_mib=1.863,
    package_mib=9.369,
)
"""Medians on 2 cores of an AMD EPYC, SmolLM2-135M, rank 16 on all linear modules, prompts of 16
tokens, blobs in the page cache; the remote is a static HTTP server on the same machine."""


def measured_costs(path: Path = RESULTS) -> tuple[Costs, str]:
    """The costs of the last run of `tiers` and where they come from; the stated ones without it.

    A tier costs what a client waits longer for its first token than with the tier above.
    """
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        rows = {row["tier"]: row["first_token_p50_ms"] / 1000 for row in results["tiers"]}
        return _costs(rows, results), f"{path.parent.name}/{path.name}"
    except (OSError, ValueError, KeyError, TypeError):
        return STATED, "stated in bench/warmup_costs.py"


def with_storage(costs: Costs, read_s: float) -> Costs:
    """The costs with blobs that are read from storage."""
    return replace(costs, load_s=costs.load_s + read_s)


def storage_read_s(size_bytes: int, directory: Path) -> float:
    """Seconds longer than from the page cache that reading a file takes here, in the median."""
    cold_s, cached_s = [], []
    with tempfile.TemporaryDirectory(prefix="read-", dir=directory) as place:
        paths = [Path(place) / str(number) for number in range(_NUM_READS)]
        for path in paths:
            with path.open("wb") as file:
                file.write(os.urandom(size_bytes))
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for path in paths:
            cold_s.append(_read_s(path))
            cached_s.append(_read_s(path))
    return max(0.0, statistics.median(cold_s) - statistics.median(cached_s))


def _read_s(path: Path) -> float:
    started_s = time.perf_counter()
    path.read_bytes()
    return time.perf_counter() - started_s


def _costs(first_token_s: Mapping[str, float], results: Mapping[str, Any]) -> Costs:
    return Costs(
        first_token_s=first_token_s["memory"],
        load_s=first_token_s["flash"] - first_token_s["memory"],
        restore_s=first_token_s["remote"] - first_token_s["flash"],
        flash_mib=results["flash_bytes_read_per_load"] / _MIB,
        package_mib=results["original_bytes"] / _MIB,
    )
