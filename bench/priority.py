"""`priority`: three classes and fair shares, beside first come first served.

One mixed trace: people who wait (interactive, short, random arrivals, two tenants), work nobody
waits for (background), and jobs of 24 long requests (batch), as many as the node was measured to
carry, so that it is always full; adapters of rank 8 to 32. It is replayed in turn on two stacks:
with its classes and tenants, and as one class of one tenant, for which both queues, scheduler and
engine, are plain first come first served. Waits are from the scheduled arrival to the first token.
Batch throughput is prompt and output tokens of the jobs from the first arrival to the last end.

Then, on the stack with classes: a light tenant alone and beside a flooder of its class; three
tenants that always have requests waiting, of different sizes; a flood of several times the queue's
bound; and batch requests under interactive load without end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from bench.adapters import QUERY_VALUE
from bench.class_replay import CLASSES, Side, replay, require_done, sender, warm_up
from bench.class_trace import Stream, mixed_trace
from bench.deployment import deployment, load_base_model
from bench.load import run_open_loop
from bench.measure import median
from bench.priority_cases import Cases, CasesPlan, run_cases
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.request_ends import Ends
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.shares import reduction, spread, waits_s
from edgelora.generation import Priority

_NUM_TENANTS = 4
_RANKS = (8, 16, 16, 32)
_JOB_SIZE = 24
_JOB_INPUT = (64, 192)
_MIN_SPREAD_REDUCTION, _MAX_BATCH_LOSS = 0.73, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is run."""

    duration_s: float
    """Of the arrivals of one replay."""
    num_rounds: int
    """Replays of each kind."""
    num_adapters: int = 8
    """The tenants own them in turn."""
    people_period_s: float
    job_size: int = _JOB_SIZE
    job_output: tuple[int, int] = (32, 96)
    """Tokens of an answer, shortest and longest."""
    cases: CasesPlan


def run(options: BenchOptions) -> BenchResult:
    """Replays the trace A/B/A/B, then the cases."""
    if options.address is not None:
        raise BenchError("priority starts two stacks of its own: leave --address out")
    plan = (
        Plan(
            duration_s=5.0,
            num_rounds=1,
            num_adapters=4,
            people_period_s=0.25,
            job_size=20,
            job_output=(16, 32),
            cases=CasesPlan(
                light_s=2.5,
                num_light_rounds=1,
                settle_s=3.0,
                backlog_s=4.0,
                flood_s=1.5,
                starvation_s=5.0,
                batch_aging_s=1.5,
                engine_aging_s=1.0,
            ),
        )
        if options.quick
        else Plan(
            duration_s=25.0,
            num_rounds=2,
            people_period_s=0.4,
            cases=CasesPlan(
                light_s=12.0,
                num_light_rounds=2,
                settle_s=10.0,
                backlog_s=20.0,
                flood_s=4.0,
                starvation_s=20.0,
                batch_aging_s=3.0,
                engine_aging_s=2.0,
            ),
        )
    )
    return asyncio.run(run_plan(plan, options))


async def run_plan(plan: Plan, options: BenchOptions) -> BenchResult:
    """Runs it on two stacks, side by side; the one that is not asked is idle."""
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with AsyncExitStack() as stacks:
        sides = []
        for name, num_tenants in (("with classes", _NUM_TENANTS), ("first come first served", 1)):
            settings = plan.cases.settings()
            node = await stacks.enter_async_context(deployment(options, settings, num_tenants))
            await register_random_adapters(
                node, model, plan.num_adapters, ranks=_RANKS, modules=QUERY_VALUE, options=options
            )
            sides.append(Side(name, node, has_classes=num_tenants > 1))
        for side in sides:
            await warm_up(side, writer)
        job_s = await _measure_job(sides[1], writer, plan, options)
        for number in range(plan.num_rounds):
            trace = mixed_trace(_streams(plan, job_s), plan.duration_s, options.seed + number)
            for side in sides:
                options.progress(f"{side.name}, round {number + 1} of {plan.num_rounds}")
                await replay(side, trace, writer, f"{options.seed} {number}")
        cases = await run_cases(plan.cases, sides[0].node, writer, options)
    return _result(sides, job_s, cases)


async def _measure_job(
    side: Side, writer: PromptWriter, plan: Plan, options: BenchOptions
) -> float:
    """Seconds that a job takes when nothing else runs."""
    options.progress("measuring what the node carries")
    job = mixed_trace([_job_stream(plan, period_s=1.0)], 0.5, options.seed)
    started_s = time.monotonic()
    require_done(await run_open_loop(job, sender(side, writer, f"{options.seed} job")))
    return time.monotonic() - started_s


def _job_stream(plan: Plan, period_s: float) -> Stream:
    return Stream(
        priority="batch",
        adapters=_adapters_of(3, plan),
        period_s=period_s,
        job_size=plan.job_size,
        input_tokens=_JOB_INPUT,
        output_tokens=plan.job_output,
    )


def _streams(plan: Plan, job_s: float) -> list[Stream]:
    return [
        Stream(
            priority="interactive",
            adapters=(*_adapters_of(0, plan), *_adapters_of(1, plan)),
            period_s=plan.people_period_s,
            job_size=0,
            input_tokens=(8, 32),
            output_tokens=(4, 16),
        ),
        Stream(
            priority="background",
            adapters=_adapters_of(2, plan),
            period_s=5 * plan.people_period_s,
            job_size=0,
            input_tokens=(16, 64),
            output_tokens=(16, 48),
        ),
        _job_stream(plan, job_s),
    ]


def _adapters_of(tenant: int, plan: Plan) -> tuple[int, ...]:
    return tuple(range(tenant, plan.num_adapters, _NUM_TENANTS))


def _result(sides: Sequence[Side], job_s: float, cases: Cases) -> BenchResult:
    classes, plain = sides
    rows = [_row(side, priority) for priority in CLASSES for side in (plain, classes)]
    stds = {side.name: _waits(side, "interactive")["std_ms"] for side in sides}
    spread_reduction = reduction(stds[plain.name], stds[classes.name])
    speeds = {side.name: _speed(side) for side in sides}
    batch_loss = reduction(speeds[plain.name], speeds[classes.name])
    everything = [
        *(one for side in sides for records in side.records.values() for one in records),
        *cases.records,
    ]
    ends = Ends.of(everything)
    return BenchResult(
        results={
            "baseline": "the same trace as one class of one tenant, in order of arrival",
            "job_alone_s": round(job_s, 2),
            "interactive_std_reduction": spread_reduction,
            "batch_tokens_per_s": speeds,
            "batch_throughput_loss": batch_loss,
            **cases.results,
            "ends": ends.document(),
            "waits": rows,
            "runs": {side.name: side.batch_tokens_per_s for side in sides},
        },
        targets=[
            Target.at_least(
                "spread of interactive waits, reduction", _MIN_SPREAD_REDUCTION, spread_reduction
            ),
            Target.at_most("batch throughput, loss", _MAX_BATCH_LOSS, batch_loss),
            *cases.targets,
            Target.at_most(
                "accepted requests that did not end exactly once",
                0,
                ends.num_accepted - ends.num_accepted_ended_once,
            ),
            Target.at_most("errors that were no declared refusals", 0, ends.num_errors),
        ],
    )


def _row(side: Side, priority: Priority) -> dict[str, Any]:
    records = side.records[priority]
    return {
        "class": f"{priority}, {side.name}",
        "requests": len(records),
        **_waits(side, priority),
    }


def _waits(side: Side, priority: Priority) -> dict[str, Any]:
    return spread(waits_s(side.records[priority]))


def _speed(side: Side) -> float | None:
    return round(median(side.batch_tokens_per_s), 1) if side.batch_tokens_per_s else None
