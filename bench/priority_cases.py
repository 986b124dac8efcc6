"""Fairness, overload and starvation on a node with classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.deployment import Deployment, PlacedAdapter
from bench.load import Request, run_open_loop, send_request
from bench.measure import RequestRecord, percentile
from bench.prompts import PromptWriter
from bench.request_ends import End, end_of
from bench.result import BenchOptions, Target
from bench.shares import (
    jain_index,
    longest_gap_s,
    milliseconds,
    ratio,
    served_tokens,
    spread,
    waits_s,
)
from bench.tenant_loop import Demand, DemandLoop, run_for
from services.inference.engine.aging import PAUSE

_MAX_LIGHT_GROWTH = 2.0
_MIN_JAIN = 0.95
_MAX_REFUSAL_MS = 50.0
_FLOOD_PERIOD_S = 0.01
_NUM_STARVED = 4
_QUESTION, _ANSWER = (48, 80), (4, 8)
"""Tokens of what the light tenant asks, and of what it gets; starved batch work gets so few too."""
_SHORT, _MIDDLE, _LONG = (8, 32), (24, 64), (48, 96)
"""Tokens of a prompt, and of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesPlan:
    """How long each case runs."""

    light_s: float
    num_light_rounds: int
    settle_s: float
    """Of a backlog, before it is measured: what is charged at a grant is served only later."""
    backlog_s: float
    flood_s: float
    starvation_s: float
    batch_aging_s: float
    engine_aging_s: float

    def settings(self) -> Mapping[str, str]:
        """Aging short enough to be seen several times."""
        return {
            "EDGELORA_SCHEDULER_BATCH_AGING": f"{self.batch_aging_s:g}s",
            "EDGELORA_SCHEDULER_BACKGROUND_AGING": f"{self.batch_aging_s / 2:g}s",
            "EDGELORA_INFERENCE_AGING": f"{self.engine_aging_s:g}s",
        }


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """One request of a flood."""

    index: int
    at_s: float


@dataclass(slots=True)
class Cases:
    """What was found."""

    results: dict[str, Any] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)
    """Of every request."""


class CaseRunner:
    """Runs the cases on a node of four tenants with two adapters each."""

    def __init__(self, plan: CasesPlan, node: Deployment, writer: PromptWriter, seed: int) -> None:
        self._plan = plan
        self._node = node
        self._writer = writer
        self._seed = seed
        self.found = Cases()

    async def light_beside_flooder(self) -> None:
        """One request at a time with pauses, alone and beside 32 at a time of another tenant."""
        light = Demand(
            name="light",
            adapters=self._adapters(0),
            num_in_flight=1,
            input_tokens=_QUESTION,
            output_tokens=_ANSWER,
            pause_s=0.25,
        )
        flooder = Demand(
            name="flooder",
            adapters=self._adapters(1),
            num_in_flight=32,
            input_tokens=_QUESTION,
            output_tokens=_SHORT,
        )
        waits: dict[str, list[float]] = {"alone": [], "beside the flooder": []}
        for number in range(self._plan.num_light_rounds):
            for case, demands in (("alone", [light]), ("beside the flooder", [light, flooder])):
                records, *_ = await self._run(demands, f"{case} {number}", self._plan.light_s)
                waits[case] += waits_s(records[0])
        p99_s = {case: percentile(values, 99) for case, values in waits.items()}
        growth = ratio(p99_s["beside the flooder"], p99_s["alone"])
        self.found.results |= {
            "light_p99_growth": growth,
            "light_tenant": [{"light": case, **spread(values)} for case, values in waits.items()],
        }
        self.found.targets.append(
            Target.at_most(
                "light tenant's p99 wait, beside a flooder / alone", _MAX_LIGHT_GROWTH, growth
            )
        )

    async def backlogged(self) -> None:
        """Three tenants that always have requests waiting, of three sizes."""
        demands = [
            Demand(
                name=name,
                adapters=self._adapters(tenant),
                num_in_flight=24,
                input_tokens=size,
                output_tokens=size,
            )
            for tenant, (name, size) in enumerate(
                {"short": _SHORT, "middle": _MIDDLE, "long": _LONG}.items()
            )
        ]
        records, from_s, until_s = await self._run(
            demands, "backlog", self._plan.settle_s + self._plan.backlog_s
        )
        shares = [served_tokens(each, from_s + self._plan.settle_s, until_s) for each in records]
        jain = jain_index(shares)
        index = None if jain is None else round(jain, 4)
        self.found.results |= {
            "jain_index": index,
            "backlogged_tenants": [
                {"tenant": demand.name, "served_tokens": share}
                for demand, share in zip(demands, shares, strict=True)
            ],
        }
        self.found.targets.append(
            Target.at_least("Jain index of tokens served to backlogged tenants", _MIN_JAIN, index)
        )

    async def flood(self) -> None:
        """A hundred requests a second of one tenant, until its queue is full several times over."""
        timed = [
            TimedRequest(index, index * _FLOOD_PERIOD_S)
            for index in range(round(self._plan.flood_s / _FLOOD_PERIOD_S))
        ]
        adapters = self._adapters(2)

        async def send(one: TimedRequest, scheduled_s: float) -> RequestRecord:
            placed = adapters[one.index % len(adapters)]
            request = Request(
                client=placed.client,
                adapter=placed.alias,
                prompt=self._writer.write(_SHORT[0], f"{self._seed} flood {one.index}"),
                num_output_tokens=_LONG[1],  # so that no node keeps up
            )
            return await send_request(request, scheduled_s)

        records = await run_open_loop(timed, send)
        self.found.records += records
        refused_s = [
            one.failed_s - one.sent_s
            for one in records
            if end_of(one) is End.REFUSED and one.failed_s is not None
        ]
        p99_ms = milliseconds(percentile(refused_s, 99))
        self.found.results["flood"] = {
            "sent": len(records),
            "refused": len(refused_s),
            "refusal_p50_ms": milliseconds(percentile(refused_s, 50)),
            "refusal_p99_ms": p99_ms,
        }
        self.found.targets.append(
            Target.at_most("flood: time to a refusal, p99, ms", _MAX_REFUSAL_MS, p99_ms)
        )

    async def starved(self) -> None:
        """Four batch requests at a time under 48 interactive ones of two tenants.

        One or two find a place that was kept for a tenant with none, so some always wait. The
        bound for the time without a first token: the batch class's aging in the queue, the
        engine's, a turn there (no longer than the longest answer) with its pause, and what an
        interactive request that has its place waits here at most.
        """
        batch = Demand(
            name="batch",
            adapters=self._adapters(3),
            num_in_flight=_NUM_STARVED,
            input_tokens=_SHORT,
            output_tokens=_ANSWER,
            priority="batch",
        )
        people = [
            Demand(
                name=f"people {tenant}",
                adapters=self._adapters(tenant),
                num_in_flight=24,
                input_tokens=_SHORT,
                output_tokens=_SHORT,
            )
            for tenant in range(2)
        ]
        (asked, *others), from_s, until_s = await self._run(
            [batch, *people], "starvation", self._plan.starvation_s
        )
        longest_s = longest_gap_s(asked, from_s, until_s)
        queued_s = [one.queue_s for one in asked if one.queue_s is not None]
        others_s = max(
            (
                one.first_token_s - one.sent_s - one.queue_s
                for records in others
                for one in records
                if one.first_token_s is not None and one.queue_s is not None
            ),
            default=0.0,
        )
        answer_s = max(
            (
                one.finished_s - one.first_token_s
                for one in asked
                if one.finished_s is not None and one.first_token_s is not None
            ),
            default=0.0,
        )
        bound_s = (
            self._plan.batch_aging_s + self._plan.engine_aging_s + (1 + PAUSE) * answer_s + others_s
        )
        self.found.results["batch_under_interactive_load"] = {
            "answered": len(queued_s),
            "longest_without_s": round(longest_s, 2),
            "longest_wait_for_a_place_s": round(max(queued_s), 2) if queued_s else None,
            "aging_of_the_queue_s": self._plan.batch_aging_s,
            "aging_of_the_engine_s": self._plan.engine_aging_s,
            "longest_answer_s": round(answer_s, 2),
            "longest_interactive_wait_with_a_place_s": round(others_s, 2),
        }
        self.found.targets.append(
            Target.at_most(
                "batch under endless interactive load: longest without a first token, s",
                round(bound_s, 2),
                round(longest_s, 2),
            )
        )

    def _adapters(self, tenant: int) -> Sequence[PlacedAdapter]:
        return self._node.adapters[tenant :: len(self._node.clients)]

    async def _run(
        self, demands: Sequence[Demand], name: str, duration_s: float
    ) -> tuple[list[list[RequestRecord]], float, float]:
        """The records of each demand, when they began and when they were stopped."""
        loops = [
            DemandLoop(demand, self._writer, f"{self._seed} {name} {demand.name}")
            for demand in demands
        ]
        from_s, until_s = await run_for(loops, duration_s)
        self.found.records += [record for loop in loops for record in loop.records]
        return [loop.records for loop in loops], from_s, until_s


async def run_cases(
    plan: CasesPlan, node: Deployment, writer: PromptWriter, options: BenchOptions
) -> Cases:
    """Runs all of them, one after the other."""
    runner = CaseRunner(plan, node, writer, options.seed)
    for words, case in (
        ("a light tenant beside a flooder", runner.light_beside_flooder),
        ("backlogged tenants", runner.backlogged),
        ("a flood", runner.flood),
        ("batch under interactive load", runner.starved),
    ):
        options.progress(words)
        await case()
    return runner.found
