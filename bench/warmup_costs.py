"""What moving an adapter costs: as the benchmark `tiers` measured it, or as stated here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.warmup_replay import Costs

RESULTS = Path(__file__).parent / "results" / "tiers.json"
_MIB = 2**20
STATED = Costs(
    first_token_s=0.0145,
    load_s=0.0195,
    restore_s=1.6,
    flash_mib=1.86,
    package_mib=9.37,
)
"""Medians on 2 cores of an AMD EPYC, SmolLM2-135M, rank 16 on all linear modules, prompts of 16
tokens; the remote is a static HTTP server on the same machine."""


def measured_costs(path: Path = RESULTS) -> tuple[Costs, str]:
    """The costs of the last run of `tiers` and where they come from; the stated ones without it.

    A tier costs what a client waits longer for its first token than with the tier above.
    """
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        rows = {row["tier"]: row["first_token_p50_ms"] / 1000 for row in results["tiers"]}
        return _costs(rows, results), f"{path.parent.name}/{path.name}"
    except (OSError, ValueError, KeyError, TypeError):
        return STATED, "stated: no results of the benchmark tiers with all three tiers"


def _costs(first_token_s: Mapping[str, float], results: Mapping[str, Any]) -> Costs:
    return Costs(
        first_token_s=first_token_s["memory"],
        load_s=first_token_s["flash"] - first_token_s["memory"],
        restore_s=first_token_s["remote"] - first_token_s["flash"],
        flash_mib=results["flash_bytes_read_per_load"] / _MIB,
        package_mib=results["original_bytes"] / _MIB,
    )
