"""`routing`: what choosing the adapter takes, and what knowing who is resident saves.

First decisions alone, in a process of its own on one core, among 8, 64 and 256 adapters. Then a
stack with 4 slots and 32 adapters: 8 versions of each of the four demo domains, near-equals of one
another, so that one of a domain is often resident when another one would be the best. Their
weights are drawn at random (rank 16, all linear modules), for what an adapter was trained on does
not change how long it takes to load; their cards are halves of the demo adapters' cards. Closed
loop: so many clients, each sends its next request when it has its answer. All requests are `auto`,
held-out prompts of the four domains in equal parts, one adapter a request (ROUTER_TOP_K 1).

The same trace is replayed in turn with a router whose file says what a difference of scores costs,
and with the same router whose file says that it costs without bound, so that no resident adapter is
near enough and the best one is always loaded. The expected loss of quality is the first router's.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import Deployment, deployment, load_base_model
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.route_cards import VersionCard, demo_groups, version_cards
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

NUM_ADAPTERS, SLOTS = 32, 4
RANK = 16
_AWARE, _ALWAYS = "resident where nearly as good", "always the best"
_MAX_DECISION_MS = 5.0
_MIN_SPEED_UP = 2.0
_RELOAD_S = 1.2
"""The scheduler looks at the router's file once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    num_decisions: int
    num_segments: int
    """Of each kind."""
    num_requests: int
    """Of a segment."""
    num_clients: int
    output_tokens: int


def run(options: BenchOptions) -> BenchResult:
    """Times decisions, then replays the trace both ways."""
    if options.address is not None:
        raise BenchError("routing needs a stack of its own: leave out --address")
    if not packaged_file().is_file():
        raise BenchError("this package ships no router")
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    plan = (
        _Plan(num_decisions=500, num_segments=2, num_requests=48, num_clients=16, output_tokens=16)
        if options.quick
        else _Plan(
            num_decisions=5000, num_segments=3, num_requests=192, num_clients=16, output_tokens=32
        )
    )
    options.progress("decisions alone")
    decisions = await asyncio.to_thread(_time_decisions, plan.num_decisions)
    cards = version_cards(NUM_ADAPTERS // len(demo_groups()), options.seed)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as name:
        router_file = Path(name) / "router.safetensors"
        content = read_router_file(packaged_file())
        _write(router_file, content)
        settings = {
            "EDGELORA_SCHEDULER_ROUTER_FILE": str(router_file),
            "EDGELORA_SCHEDULER_ROUTER_TOP_K": "1",
            "EDGELORA_INFERENCE_MAX_LORAS": str(SLOTS),
        }
        async with deployment(options, settings, num_tenants=1) as node:
            digests = await _register(node, cards, Path(name), options)
            judge = QualityJudge(Router(content), cards, digests)
            answers, loads = await _replay_in_turn(node, router_file, content, plan, options)
    return _result(decisions, answers, loads, judge, plan)


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


async def _register(
    node: Deployment, cards: Sequence[VersionCard], root: Path, options: BenchOptions
) -> list[str]:
    """Registers one adapter for each card; returns their digests."""
    (client,) = node.clients
    # Nothing may come into a slot that no request asked for.
    await client.set_warm_up(is_enabled=False)
    model = load_base_model(options)
    digests = []
    for number, card in enumerate(cards):
        if number % 8 == 0:
            options.progress(f"registering adapters, {number} of {len(cards)}")
        directory = await asyncio.to_thread(
            write_random_adapter,
            root / str(number),
            model,
            rank=RANK,
            modules=ALL_LINEAR,
            seed=options.seed * 1_000_000 + number,
        )
        (directory / "card.json").write_text(json.dumps(card.document()), encoding="utf-8")
        registered = await client.register_adapter(directory, alias=f"{card.group}-{number}")
        digests.append(registered.adapter.digest)
    return digests


async def _replay_in_turn(
    node: Deployment, router_file: Path, content: RouterFile, plan: _Plan, options: BenchOptions
) -> tuple[dict[str, list[RoutedAnswer]], dict[str, TierCounts]]:
    (client,) = node.clients
    contents = {_AWARE: content, _ALWAYS: replace(content, temperature=MAX_TEMPERATURE)}
    answers: dict[str, list[RoutedAnswer]] = {kind: [] for kind in contents}
    loads = dict.fromkeys(contents, TierCounts())
    for number in range(plan.num_segments):
        trace = write_trace(demo_groups(), plan.num_requests, options.seed * 1_000_000 + number)
        for kind, router in contents.items():
            options.progress(f"trace {number + 1} of {plan.num_segments}: {kind}")
            _write(router_file, router)
            await asyncio.sleep(_RELOAD_S)
            await ask_auto(client, trace[0], 1)
            before = await tier_counts(client)
            answers[kind] += await replay(client, trace, plan.num_clients, plan.output_tokens)
            loads[kind] += await tier_counts(client) - before
    return answers, loads


def _write(file: Path, content: RouterFile) -> None:
    partial = file.with_name(f"{file.name}.partial")
    partial.write_bytes(content.encoded())
    partial.replace(file)


def _result(
    decisions: Sequence[dict[str, Any]],
    answers: dict[str, list[RoutedAnswer]],
    loads: dict[str, TierCounts],
    judge: QualityJudge,
    plan: _Plan,
) -> BenchResult:
    rows = {kind: summarise_answers(found, judge) for kind, found in answers.items()}
    speed_up = round(rows[_ALWAYS]["response_mean_ms"] / rows[_AWARE]["response_mean_ms"], 2)
    of_64 = next(row for row in decisions if row["adapters"] == 64)
    return BenchResult(
        results={
            "adapters": NUM_ADAPTERS,
            "slots": SLOTS,
            "groups_of_near_equals": len(demo_groups()),
            "versions_in_a_group": NUM_ADAPTERS // len(demo_groups()),
            "clients": plan.num_clients,
            "output_tokens": plan.output_tokens,
            "decisions": list(decisions),
            "trace": [
                {
                    "router": kind,
                    **row,
                    "loads": loads[kind].num_loads,
                    "slot_waits": loads[kind].num_slot_waits,
                }
                for kind, row in rows.items()
            ],
        },
        targets=[
            Target.at_most(
                "decision among 64 adapters, p99, ms", _MAX_DECISION_MS, of_64["p99_ms"]
            ),
            Target.at_least("mean response: always the best / resident", _MIN_SPEED_UP, speed_up),
        ],
    )
