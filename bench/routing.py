"""`routing`: what choosing the adapter takes, and what knowing who is resident saves.

First decisions alone, in a process of its own on one core, among 8, 64 and 256 adapters. Then a
stack with eight times as many adapters as slots: versions of the demo domains, near-equals of one
another, eight for each slot's domain, so that one of a domain is often resident when another one
would be the best. Their weights are drawn at random (rank 16, all linear modules), for what an
adapter was trained on does not change how long it takes to load; their cards are halves of the demo
adapters' cards. All of them lie on flash; or they come from a static HTTP server beside it, as
packages with their encoded form or without, and flash holds a quarter of them.

Closed loop: so many clients, each sends its next request when it has its answer. All requests are
`auto`, held-out prompts of the domains in equal parts, one adapter a request (ROUTER_TOP_K 1). The
same trace is replayed with a router whose file says what a difference of scores costs, and with the
same router whose file says that it costs without bound, so that no resident adapter is near enough
and the best one is always loaded; which of them goes first changes from trace to trace. The
expected loss of quality is the first router's.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.route_cards import demo_groups
from bench.route_node import FLASH_PER_SLOT, RANK, Placement, RouteNode, route_node
from bench.route_trace import (
    QualityJudge,
    RoutedAnswer,
    ask_auto,
    replay,
    summarise_answers,
    write_trace,
)
from bench.tier_counts import TierCounts, tier_counts
from edgelora.routing import Router
from edgelora.routing.router_file import MAX_TEMPERATURE, RouterFile, read_router_file
from services.scheduler.routing.router_source import packaged_file

_AWARE, _ALWAYS = "resident where nearly as good", "always the best"
_MAX_DECISION_MS = 5.0
_MIN_SPEED_UP = 2.0
_VERSIONS = 8
_CLIENTS = 4
_RELOAD_S = 1.2
"""The scheduler looks at the router's file once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    num_decisions: int
    placements: Sequence[Placement]
    num_groups: int
    """And slots."""
    num_traces: int
    num_requests: int
    """Of a trace."""
    output_tokens: int


_QUICK = _Plan(
    num_decisions=300,
    placements=("remote",),
    num_groups=2,
    num_traces=2,
    num_requests=24,
    output_tokens=8,
)
_WHOLE = _Plan(
    num_decisions=5000,
    placements=("flash", "remote, encoded form", "remote"),
    num_groups=4,
    num_traces=2,
    num_requests=64,
    output_tokens=8,
)


def run(options: BenchOptions) -> BenchResult:
    """Times decisions, then replays the traces both ways."""
    if options.address is not None:
        raise BenchError("routing needs a stack of its own: leave out --address")
    if not packaged_file().is_file():
        raise BenchError("this package ships no router")
    return asyncio.run(_run(options, _QUICK if options.quick else _WHOLE))


async def _run(options: BenchOptions, plan: _Plan) -> BenchResult:
    options.progress("decisions alone")
    decisions = await asyncio.to_thread(_time_decisions, plan.num_decisions)
    content = read_router_file(packaged_file())
    groups = demo_groups()[: plan.num_groups]
    rows: list[dict[str, Any]] = []
    for placement in plan.placements:
        async with route_node(
            options,
            content,
            groups,
            placement=placement,
            num_versions=_VERSIONS,
            num_slots=plan.num_groups,
        ) as node:
            rows += await _replay_both(node, content, placement, plan, options)
    return _result(decisions, rows, plan)


def _time_decisions(num_decisions: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.route_decisions", str(packaged_file())]
    finished = subprocess.run(
        [*command, str(num_decisions)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # as the scheduler sets it for itself
    )
    if finished.returncode != 0:
        raise BenchError(f"decisions could not be timed: {finished.stderr.strip()}")
    rows: list[dict[str, Any]] = json.loads(finished.stdout.splitlines()[-1])
    return rows


async def _replay_both(
    node: RouteNode, content: RouterFile, placement: Placement, plan: _Plan, options: BenchOptions
) -> list[dict[str, Any]]:
    contents = {_AWARE: content, _ALWAYS: replace(content, temperature=MAX_TEMPERATURE)}
    answers: dict[str, list[RoutedAnswer]] = {kind: [] for kind in contents}
    loads = dict.fromkeys(contents, TierCounts())
    groups = sorted({card.group for card in node.cards})
    for number in range(plan.num_traces):
        trace = write_trace(groups, plan.num_requests, options.seed * 1_000_000 + number)
        # A, B, B, A: what changes slowly changes both.
        for kind in list(contents) if number % 2 == 0 else reversed(contents):
            options.progress(f"{placement}, trace {number + 1} of {plan.num_traces}: {kind}")
            node.use_router(contents[kind])
            await asyncio.sleep(_RELOAD_S)
            await ask_auto(node.client, trace[0], 1)
            before = await tier_counts(node.client)
            answers[kind] += await replay(node.client, trace, _CLIENTS, plan.output_tokens)
            loads[kind] += await tier_counts(node.client) - before
    judge = QualityJudge(Router(content), node.cards, node.digests)
    return [
        {
            "from": placement,
            "router": kind,
            **summarise_answers(found, judge),
            "loads": loads[kind].num_loads,
            "remote_hits": loads[kind].num_remote_hits,
            "slot_waits": loads[kind].num_slot_waits,
        }
        for kind, found in answers.items()
    ]


def _result(
    decisions: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], plan: _Plan
) -> BenchResult:
    mean_ms = {(row["from"], row["router"]): row["response_mean_ms"] for row in rows}
    of_64 = next(row for row in decisions if row["adapters"] == 64)
    return BenchResult(
        results={
            "adapters": plan.num_groups * _VERSIONS,
            "slots": plan.num_groups,
            "on_flash_where_remote": plan.num_groups * FLASH_PER_SLOT,
            "groups_of_near_equals": plan.num_groups,
            "versions_in_a_group": _VERSIONS,
            "adapter_rank": RANK,
            "clients": _CLIENTS,
            "output_tokens": plan.output_tokens,
            "decisions": list(decisions),
            "traces": list(rows),
        },
        targets=[
            Target.at_most(
                "decision among 64 adapters, p99, ms", _MAX_DECISION_MS, of_64["p99_ms"]
            ),
            *(
                Target.at_least(
                    f"mean response, {placement}: always the best / resident",
                    _MIN_SPEED_UP,
                    round(mean_ms[placement, _ALWAYS] / mean_ms[placement, _AWARE], 2),
                )
                for placement in plan.placements
            ),
        ],
    )
