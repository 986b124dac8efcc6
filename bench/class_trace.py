"""One mixed load as a list: people who wait, work nobody waits for, and jobs that fill the node."""

from __future__ import annotations

import random
from dataclasses import dataclass

from edgelora.generation import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One request of a trace."""

    index: int
    at_s: float
    """Seconds after the start."""
    priority: Priority
    adapter: int
    """Of the node's adapters, so also of which tenant."""
    num_input_tokens: int
    num_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The requests of one class."""

    priority: Priority
    adapters: tuple[int, ...]
    """Drawn evenly."""
    period_s: float
    """Mean time between two arrivals, exponential; of jobs, the exact time between two."""
    job_size: int
    """Requests that come at once; 0 is a stream of single requests at random times."""
    input_tokens: tuple[int, int]
    """Shortest and longest prompt."""
    output_tokens: tuple[int, int]
    """Shortest and longest output."""


def mixed_trace(streams: list[Stream], duration_s: float, seed: int) -> list[TracedRequest]:
    """Returns the requests of all streams in order of time; the same for the same seed."""
    found: list[TracedRequest] = []
    for number, stream in enumerate(streams):
        draw = random.Random(f"{seed} {number}")
        for at_s in _times(stream, duration_s, draw):
            found.append(
                TracedRequest(
                    index=len(found),
                    at_s=at_s,
                    priority=stream.priority,
                    adapter=draw.choice(stream.adapters),
                    num_input_tokens=draw.randint(*stream.input_tokens),
                    num_output_tokens=draw.randint(*stream.output_tokens),
                )
            )
    return sorted(found, key=lambda one: one.at_s)


def _times(stream: Stream, duration_s: float, draw: random.Random) -> list[float]:
    times = []
    at_s = 0.0 if stream.job_size else draw.expovariate(1 / stream.period_s)
    while at_s < duration_s:
        times += [at_s] * max(1, stream.job_size)
        at_s += stream.period_s if stream.job_size else draw.expovariate(1 / stream.period_s)
    return times
