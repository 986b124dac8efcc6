"""`warmup`: first responses after a cold start, with and without the forecast warm-up.

Habit traces are replayed through the store's own policy on a simulated device, whose tiers cost
what was measured. A first response is the first request after the device slept or restarted, from
sending it to its first token: what is left of a warm-up it has to wait for, the restore from the
remote when its adapter is not on flash, the load into a slot with the read from storage, and an
ordinary first token. The worker is up and its model in memory; what that takes is not in here.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.habit_traces import NUM_ADAPTERS, PROFILES, Use, trace
from bench.result import BenchOptions, BenchResult, Target
from bench.warmup_costs import measured_costs, storage_read_s, with_storage
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
    Shape(name="16 slots, all on flash", num_slots=16, flash_share=1.0),
    Shape(name="8 slots, all on flash", num_slots=8, flash_share=1.0),
    Shape(name="8 slots, half on flash", num_slots=8, flash_share=0.5),
)
"""The first is what a node does without settings: 16 slots, flash without a bound."""


LIBRARY = tuple(
    f"sha256:{hashlib.sha256(f'adapter {number}'.encode()).hexdigest()}"
    for number in range(NUM_ADAPTERS)
)


def run(options: BenchOptions) -> BenchResult:
    """Replays every profile on seeds that were not used for tuning."""
    cached, source = measured_costs()
    read_s = storage_read_s(int(cached.flash_mib * 2**20), Path.cwd())
    costs = with_storage(cached, read_s)
    weeks = 4 if options.quick else 8
    first = _FIRST_REPORTED_SEED * options.seed
    seeds = range(first, first + (1 if options.quick else 5))
    tables: dict[str, list[dict[str, Any]]] = {}
    targets: list[Target] = []
    for shape in SHAPES[:1] if options.quick else SHAPES:
        found = {}
        for profile in PROFILES:
            options.progress(f"{profile}, {shape.name}")
            found[profile] = _outcomes(profile, seeds, weeks, shape, costs)
        tables[f"first response, {shape.name}"] = [
            _response_row(profile, name, outcomes)
            for profile, outcomes in found.items()
            for name in POLICIES
        ]
        tables[f"spent, {shape.name}"] = [
            _spending_row(profile, name, outcomes[name], weeks)
            for profile, outcomes in found.items()
            for name in POLICIES[1:]
        ]
        targets += _targets(shape, found)
    return BenchResult(
        results={
            "seeds": list(seeds),
            "weeks": weeks,
            "costs_from": source,
            "costs": {
                "first_token_ms": round(costs.first_token_s * 1000, 1),
                "load_ms": round(costs.load_s * 1000, 1),
                "of_it_storage_ms": round(read_s * 1000, 1),
                "restore_ms": round(costs.restore_s * 1000, 1),
                "flash_mib": round(costs.flash_mib, 2),
                "package_mib": round(costs.package_mib, 2),
            },
            **tables,
        },
        targets=targets,
    )


Outcomes = dict[str, list[Outcome]]
"""By policy, one for each seed."""


def _outcomes(
    profile: str, seeds: Sequence[int], weeks: int, shape: Shape, costs: Costs
) -> Outcomes:
    traces = {seed: trace(profile, seed, weeks) for seed in seeds}
    return {
        name: [replay(name, uses, seed, shape, costs) for seed, uses in traces.items()]
        for name in POLICIES
    }


def _response_row(profile: str, name: str, outcomes: Outcomes) -> dict[str, Any]:
    own = outcomes[name]
    return {
        "profile, policy": f"{profile}, {name}",
        "cold_starts": len(_cold(own)),
        "mean_ms": round(statistics.fmean(_cold(own)) * 1000, 1),
        "lower_percent": _lower_percent(outcomes, name),
        "in_memory_percent": _percent(own, "memory"),
        "at_remote_percent": _percent(own, "remote"),
        "later_mean_ms": round(
            statistics.fmean(each for outcome in own for each in outcome.warm_s) * 1000, 1
        ),
    }


def _spending_row(
    profile: str, name: str, outcomes: Sequence[Outcome], weeks: int
) -> dict[str, Any]:
    days = len(outcomes) * weeks * 7
    return {
        "profile, policy": f"{profile}, {name}",
        **{
            f"{figure}_per_day": round(
                math.fsum(getattr(each, figure) for each in outcomes) / days, 1
            )
            for figure in ("moved_mib", "wasted_mib", "joules")
        },
    }


def _targets(shape: Shape, found: Mapping[str, Outcomes]) -> list[Target]:
    *habitual, random_user = [_lower_percent(found[profile], "forecast") for profile in PROFILES]
    mean = round(statistics.fmean(habitual), 1)
    return [
        Target.at_least(f"{shape.name}: people with habits, percent lower", 40.0, mean),
        Target.at_least(f"{shape.name}: random user, percent lower", -2.0, random_user),
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


def _lower_percent(outcomes: Outcomes, name: str) -> float:
    """How much lower the mean first response is than without warm-ups."""
    ratio = statistics.fmean(_cold(outcomes[name])) / statistics.fmean(_cold(outcomes["none"]))
    return round(100 * (1 - ratio), 1)


def _cold(outcomes: Sequence[Outcome]) -> list[float]:
    return [each for outcome in outcomes for each in outcome.cold_s]


def _percent(outcomes: Sequence[Outcome], tier: str) -> float:
    found = sum(outcome.found[tier] for outcome in outcomes)
    return round(100 * found / len(_cold(outcomes)), 1)
