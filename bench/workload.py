"""Open-loop workloads: when requests arrive, for which adapter, and how long they are.

The generator and its parameters are S-LoRA's (arXiv 2311.03285, benchmarks/trace.py), which the
published EdgeLoRA (arXiv 2507.01438) took over: gamma arrivals, power-law choice of the adapter,
uniform lengths. An arrival has a time of its own; nothing here waits for an answer.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Parameters of one workload."""

    num_adapters: int
    alpha: float
    """P(adapter < x * num_adapters) = x ** alpha: 1 is uniform, smaller is more skewed."""
    rate_per_s: float
    """Mean requests a second."""
    cv: float
    """Coefficient of variation of the gaps: 1 is a Poisson process, more is burstier."""
    duration_s: float
    input_tokens: tuple[int, int]
    """Shortest and longest prompt."""
    output_tokens: tuple[int, int]
    """Shortest and longest output."""
    seed: int

    def __post_init__(self) -> None:
        positive = {
            "num_adapters": self.num_adapters,
            "alpha": self.alpha,
            "rate_per_s": self.rate_per_s,
            "cv": self.cv,
            "duration_s": self.duration_s,
        }
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0")
        for name, (low, high) in (("input", self.input_tokens), ("output", self.output_tokens)):
            if not 1 <= low <= high:
                raise ValueError(f"{name}_tokens must be a range of at least 1 token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request of a workload."""

    index: int
    at_s: float
    """Seconds after the start, whatever else is in flight then."""
    adapter: int
    num_input_tokens: int
    num_output_tokens: int


def schedule(workload: Workload) -> list[Arrival]:
    """Returns floor(rate x duration) arrivals in order of time; the same for the same seed."""
    draw = random.Random(workload.seed)
    shape = 1 / workload.cv**2
    scale = workload.cv**2 / workload.rate_per_s
    now_s = 0.0
    arrivals = []
    for index in range(math.floor(workload.rate_per_s * workload.duration_s)):
        now_s += draw.gammavariate(shape, scale)
        arrivals.append(
            Arrival(
                index=index,
                at_s=now_s,
                adapter=choose_adapter(workload.num_adapters, workload.alpha, draw.random()),
                num_input_tokens=draw.randint(*workload.input_tokens),
                num_output_tokens=draw.randint(*workload.output_tokens),
            )
        )
    return arrivals


def choose_adapter(num_adapters: int, alpha: float, uniform: float) -> int:
    """Maps a uniform number in [0, 1) to floor(n * u ** (1 / alpha)), the power law's choice."""
    return min(math.floor(num_adapters * math.pow(uniform, 1 / alpha)), num_adapters - 1)
