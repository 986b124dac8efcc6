"""`warmup`: first responses after a cold start, with and without the forecast warm-up.

Habit traces are replayed through the store's own policy on a simulated device, whose tiers cost
what was measured. A first response is the first request after the device slept or restarted, from
sending it to its first token: what is left of a warm-up it has to wait for, the restore from the
remote when its adapter is not on flash, the load into a slot, and an ordinary first token.
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.habit_traces import NUM_ADAPTERS, PROFILES, Use, trace
from bench.result import BenchOptions, BenchResult, Target
from bench.warmup_costs import measured_costs
from bench.warmup_policies import ForecastPolicy, MostRecent, NoWarmUp, Oracle
from bench.warmup_replay import Costs, Device, Outcome, Policy
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings

TUNING_SEEDS = range(1, 9)
"""Seeds the policy's constants were chosen on; nothing is reported on these."""
_FIRST_REPORTED_SEED = 1000
_WEEK_S = 7 * 86_400.0
POLICIES = ("none", "most recent", "forecast", "oracle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A device."""

    name: str
    num_slots: int
    flash_share: float
    """Part of the library that fits on flash."""


SHAPES = (
    Shape(name="8 slots, all on flash", num_slots=8, flash_share=1.0),
    Shape(name="4 slots, all on flash", num_slots=4, flash_share=1.0),
    Shape(name="8 slots, half on flash", num_slots=8, flash_share=0.5),
)
"""The first is the default: flash has no bound but the disk's."""


LIBRARY = tuple(
    f"sha256:{hashlib.sha256(f'adapter {number}'.encode()).hexdigest()}"
    for number in range(NUM_ADAPTERS)
)


def run(options: BenchOptions) -> BenchResult:
    """Replays every profile on seeds that were not used for tuning."""
    costs, source = measured_costs()
    weeks = 4 if options.quick else 8
    first = _FIRST_REPORTED_SEED * options.seed
    seeds = range(first, first + (1 if options.quick else 5))
    rows: list[dict[str, Any]] = []
    for shape in SHAPES[:1] if options.quick else SHAPES:
        for profile in PROFILES:
            options.progress(f"{profile}, {shape.name}")
            rows += _compare(profile, seeds, weeks, shape, costs)
    return BenchResult(
        results={
            "seeds": list(seeds),
            "weeks": weeks,
            "costs_from": source,
            "costs": {
                "first_token_ms": round(costs.first_token_s * 1000, 1),
                "load_ms": round(costs.load_s * 1000, 1),
                "restore_ms": round(costs.restore_s * 1000, 1),
                "flash_mib": round(costs.flash_mib, 2),
                "package_mib": round(costs.package_mib, 2),
            },
            "first_response": rows,
        },
        targets=_targets(rows),
    )


def _compare(
    profile: str, seeds: Sequence[int], weeks: int, shape: Shape, costs: Costs
) -> list[dict[str, Any]]:
    outcomes: dict[str, list[Outcome]] = {name: [] for name in POLICIES}
    for seed in seeds:
        uses = trace(profile, seed, weeks)
        for name in POLICIES:
            outcomes[name].append(replay(name, uses, seed, shape, costs))
    without_s = statistics.fmean(_all_cold(outcomes["none"]))
    return [
        {
            "device": shape.name,
            "profile": profile,
            "policy": name,
            "mean_ms": round(statistics.fmean(_all_cold(outcomes[name])) * 1000, 1),
            "lower_percent": round(
                100 * (1 - statistics.fmean(_all_cold(outcomes[name])) / without_s), 1
            ),
            "cold_starts": len(_all_cold(outcomes[name])),
            "in_memory_percent": _percent(outcomes[name], "memory"),
            "at_remote_percent": _percent(outcomes[name], "remote"),
            "later_mean_ms": round(
                1000
                * statistics.fmean(each for one in outcomes[name] for each in one.warm_s or [0.0]),
                1,
            ),
            "moved_mib_per_day": _per_day(outcomes[name], "moved_mib", weeks),
            "wasted_mib_per_day": _per_day(outcomes[name], "wasted_mib", weeks),
            "joules_per_day": _per_day(outcomes[name], "joules", weeks),
        }
        for name in POLICIES
    ]


def replay(name: str, uses: Sequence[Use], seed: int, shape: Shape, costs: Costs) -> Outcome:
    """One trace with one policy. The first week is lived but not counted."""
    with _policy(name, uses, costs) as policy:
        device = Device(
            LIBRARY,
            costs,
            policy,
            num_slots=shape.num_slots,
            num_on_flash=round(shape.flash_share * NUM_ADAPTERS),
        )
        return device.replay(uses, seed, counted_from_s=uses[0].unix_s + _WEEK_S)


@contextmanager
def _policy(name: str, uses: Sequence[Use], costs: Costs) -> Iterator[Policy]:
    settings = WarmUpSettings()
    known = TierCosts(load_s=costs.load_s, restore_s=costs.restore_s)
    match name:
        case "none":
            yield NoWarmUp()
        case "most recent":
            yield MostRecent(known, settings)
        case "oracle":
            yield Oracle(uses, LIBRARY, known, settings)
        case _:
            with tempfile.TemporaryDirectory(prefix="edgelora-bench-habits-") as directory:
                forecast = ForecastPolicy(Path(directory), known, settings)
                try:
                    yield forecast
                finally:
                    forecast.close()


def _targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    *habitual, random_user = PROFILES
    targets = []
    for device in dict.fromkeys(row["device"] for row in rows):
        lower = {
            row["profile"]: row["lower_percent"]
            for row in rows
            if row["device"] == device and row["policy"] == "forecast"
        }
        mean = round(statistics.fmean(lower[profile] for profile in habitual), 1)
        targets += [
            Target.at_least(f"{device}: mean of habits, lower by percent", 40.0, mean),
            Target.at_least(f"{device}: {random_user}, lower by percent", -2.0, lower[random_user]),
        ]
    return targets


def _all_cold(outcomes: Sequence[Outcome]) -> list[float]:
    return [each for outcome in outcomes for each in outcome.cold_s]


def _percent(outcomes: Sequence[Outcome], tier: str) -> float:
    total = sum(sum(outcome.found.values()) for outcome in outcomes)
    return round(100 * sum(outcome.found[tier] for outcome in outcomes) / total, 1)


def _per_day(outcomes: Sequence[Outcome], name: str, weeks: int) -> float:
    total: float = sum(getattr(each, name) for each in outcomes)
    return round(total / len(outcomes) / weeks / 7, 1)
