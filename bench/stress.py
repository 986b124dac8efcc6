"""`stress`: a device that heats up, drains and fills its memory while requests keep coming.

A running stack whose monitor reads a directory in place of the machine's sensors; the benchmark
writes there. Four tenants ask all the time: two interactive, one background, one batch; adapters
of rank 8 to 64, r8 to r64b; of r64v there is a version cut to rank 16. A refused client asks
again after a second at most. Samples, dwell and hold are shorter than the defaults, and so are
the capped answers, so that everything fits in minutes; the settings are listed.

Each phase is measured once the device has settled. First token: of interactive requests. Tokens a
second: prompts and answers of all. Errors and lost requests are counted over the whole run.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.deployment import Deployment, deployment, load_base_model
from bench.measure import RequestRecord
from bench.process_watch import ProcessWatch, process_watch
from bench.prompts import PromptWriter
from bench.request_ends import Ends
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.sensor_tree import SensorTree
from bench.shares import ratio, served_tokens, spread, waits_s
from bench.stress_adapters import ADAPTERS, register_adapters
from bench.stress_trace import TRACE, Phase
from bench.tenant_loop import Demand, DemandLoop
from edgelora.v1.gateway_service_pb2 import GetStatusResponse
from edgelora.v1.monitor_service_pb2 import PressureLevel

_NUM_TENANTS = 4
_SETTINGS: Mapping[str, str] = {
    "EDGELORA_MONITOR_INTERVAL": "200ms",
    "EDGELORA_MONITOR_HOLD": "800ms",
    "EDGELORA_MONITOR_DWELL": "800ms",
    "EDGELORA_SCHEDULER_TEMPERATURE_UNKNOWN": "cautious",
    "EDGELORA_SCHEDULER_BATTERY_ELEVATED_MAX_OUTPUT_TOKENS": "32",
    "EDGELORA_SCHEDULER_BATTERY_CRITICAL_MAX_OUTPUT_TOKENS": "16",
}
_LOOK_EVERY_S = 0.5
_STEPS = {"rank_cut": "cut", "adapter_off": "off", "shorter_output": "shorter"}
_REFUSAL = "refusal"
_MIN_RECOVERED_SPEED, _MAX_RECOVERED_WAIT = 0.9, 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long each phase is."""

    trace: Sequence[Phase] = TRACE
    adapters: Sequence[tuple[str, int]] = ADAPTERS
    settle_s: float
    """Until the monitor has the new readings and a level has fallen."""
    measured_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A phase, and what the node said of it at its end."""

    phase: Phase
    from_s: float
    until_s: float
    status: GetStatusResponse


def run(options: BenchOptions) -> BenchResult:
    """Replays the trace against a stack of its own."""
    if options.address is not None:
        raise BenchError("stress starts a stack of its own: leave --address out")
    plan = (
        Plan(settle_s=1.5, measured_s=1.2) if options.quick else Plan(settle_s=3.0, measured_s=10.0)
    )
    return asyncio.run(run_plan(plan, options))


async def run_plan(plan: Plan, options: BenchOptions) -> BenchResult:
    """Replays a plan's trace."""
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgelora-bench-")))
        tree = SensorTree(root)
        tree.show(plan.trace[0].device)
        settings = {**_SETTINGS, "EDGELORA_MONITOR_ROOT": str(root)}
        node = await stack.enter_async_context(deployment(options, settings, _NUM_TENANTS))
        await register_adapters(node, model, plan.adapters, options)
        loops = [DemandLoop(one, writer, f"{options.seed} {one.name}") for one in _demands(node)]
        assert node.pids is not None  # the stack is our own
        async with process_watch(node.pids, _LOOK_EVERY_S) as watch:
            measured = await _replay(plan, node, tree, loops, options)
    return result(measured, loops, watch)


def _demands(node: Deployment) -> list[Demand]:
    voice, cut, large, reports = (node.adapters[tenant::_NUM_TENANTS] for tenant in range(4))
    return [
        Demand(
            name="voice",
            adapters=voice,
            num_in_flight=2,
            input_tokens=(16, 32),
            output_tokens=(8, 24),
            pause_s=0.1,
        ),
        Demand(
            name="assistant",
            adapters=cut,
            num_in_flight=2,
            input_tokens=(16, 48),
            output_tokens=(16, 48),
            pause_s=0.1,
        ),
        Demand(
            name="summaries",
            adapters=large,
            num_in_flight=2,
            input_tokens=(32, 96),
            output_tokens=(16, 48),
            priority="background",
        ),
        Demand(
            name="reports",
            adapters=reports,
            num_in_flight=4,
            input_tokens=(32, 96),
            output_tokens=(32, 64),
            priority="batch",
        ),
    ]


async def _replay(
    plan: Plan,
    node: Deployment,
    tree: SensorTree,
    loops: Sequence[DemandLoop],
    options: BenchOptions,
) -> list[Measured]:
    measured = []
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run())
        try:
            for number, phase in enumerate(plan.trace):
                options.progress(f"{phase.name}, {number + 1} of {len(plan.trace)}")
                tree.show(phase.device)
                await asyncio.sleep(plan.settle_s)
                from_s = time.monotonic()
                await asyncio.sleep(plan.measured_s)
                measured.append(
                    Measured(
                        phase=phase,
                        from_s=from_s,
                        until_s=time.monotonic(),
                        status=await node.clients[0].status(),
                    )
                )
        finally:
            for loop in loops:
                loop.stop()
    return measured


def result(
    measured: Sequence[Measured], loops: Sequence[DemandLoop], watch: ProcessWatch
) -> BenchResult:
    """The table by phase, and what held over all of them."""
    records = [record for loop in loops for record in loop.records]
    waited = [
        record for loop in loops if loop.demand.priority == "interactive" for record in loop.records
    ]
    ends = Ends.of(records)
    rows = [_row(one, records, waited) for one in measured]
    first, last = rows[0], rows[-1]
    seen = {phrase.split()[0] for record in records for phrase in record.degradations}
    seen |= {_REFUSAL} if ends.num_refused else set()
    speed = ratio(last["tokens_per_s"], first["tokens_per_s"])
    wait = ratio(last["first_token_p50_ms"], first["first_token_p50_ms"])
    return BenchResult(
        results={
            "steps_seen": [step for step in (*_STEPS, _REFUSAL) if step in seen],
            "ends": ends.document(),
            "processes_changed": sorted(watch.changed),
            "last_phase_to_first": {"tokens_per_s": speed, "first_token_p50": wait},
            "phases": rows,
            "rules": [
                {
                    "phase": one.phase.name,
                    "what_holds": [each.explanation for each in one.status.restrictions],
                }
                for one in measured
                if one.status.restrictions
            ],
        },
        targets=[
            Target.at_most("errors that were no declared refusals", 0, ends.num_errors),
            Target.at_most("requests lost", 0, ends.num_lost),
            Target.at_most("processes that ended", 0, len(watch.changed)),
            Target.at_least("steps of the ladder seen, refusal among them", 4, len(seen)),
            Target.at_most(
                "rules that hold in the last phase", 0, len(measured[-1].status.restrictions)
            ),
            Target.at_least("tokens a second, last phase to first", _MIN_RECOVERED_SPEED, speed),
            Target.at_most("median first token, last phase to first", _MAX_RECOVERED_WAIT, wait),
        ],
    )


def _row(
    one: Measured, records: Sequence[RequestRecord], waited: Sequence[RequestRecord]
) -> dict[str, Any]:
    within = [record for record in records if one.from_s <= record.scheduled_s < one.until_s]
    waits = spread(waits_s([r for r in waited if one.from_s <= r.scheduled_s < one.until_s]))
    ends = Ends.of(within)
    tokens = served_tokens(records, one.from_s, one.until_s)
    return {
        "phase": one.phase.name,
        "state": _state(one.status),
        "switched_off": sorted({_short(phrase) for r in within for phrase in r.degradations}),
        "first_token_p50_ms": waits["p50_ms"],
        "tokens_per_s": round(tokens / (one.until_s - one.from_s), 1),
        "refused": ends.refused_by,
        "errors": ends.num_errors + ends.num_lost,
    }


def _short(phrase: str) -> str:
    step, *adapter = phrase.split()
    return " ".join([_STEPS.get(step, step), *adapter])


def _state(status: GetStatusResponse) -> str:
    """The levels that are not normal."""
    levels = {
        name: PressureLevel.Name(getattr(status.pressure, name).level)
        .removeprefix("PRESSURE_LEVEL_")
        .lower()
        for name in ("temperature", "memory", "battery")
    }
    worse = [f"{name} {level}" for name, level in levels.items() if level != "normal"]
    return ", ".join(worse) or "normal"
