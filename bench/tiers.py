"""`tiers`: what it takes until an adapter is ready to run, from memory, flash and a remote.

A running stack with 4 slots. Six adapters take turns in the slots; six more take turns on a flash
tier with room for two of them, and come back from a static HTTP server: three as their original
files, three as the encoded form that their packages hold too. Rank 16 on all linear modules.
Requests come one at a time; the store's counters say which tier each was served from. "Ready" is
the node's own figure of what a request waited for its adapter, "first token" the client's. A
reference in memory is timed in this process, on the engine's own slot table, for the node's figure
is zero.

Then streams run with one adapter while ten short requests a second come: for an adapter in memory,
or for ones that have to be loaded each time. The gaps between the streams' tokens are compared, in
turn. Published for other servers: 100 to 200 ms from flash, more than 500 ms from a remote.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.deployment import PlacedAdapter, load_base_model
from bench.measure import median, percentile
from bench.package_site import SERVER
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.tier_node import RANK, SLOTS, TierNode, tier_node
from bench.tier_requests import TIERS, Answer, TierAnswer, ask, ask_tier
from bench.token_gaps import Segment, run_segment
from edgelora.v1.adapter_pb2 import ServingForm
from services.inference.engine.adapter_slots import AdapterSlots

_PROMPT_TOKENS = 16
_STAGES = ("remote_s", "fetch_s", "check_s", "decode_s", "prove_s")
_ENCODED = "remote, encoded form"
_ROWS = (*TIERS, _ENCODED)
_LIMITS_MS = {"memory": 1.0, "flash": 20.0, _ENCODED: 500.0}
_MAX_GAP_GROWTH = 1.1
_CASES = ("alone", "requests, adapter in memory", "requests, adapters loaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    num_rounds: int
    num_segments: int
    """Of each case."""
    stream_tokens: int


def run(options: BenchOptions) -> BenchResult:
    """Measures each tier, and the streams beside loads."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    plan = (
        _Plan(num_rounds=2, num_segments=2, stream_tokens=120)
        if options.quick
        else _Plan(num_rounds=15, num_segments=6, stream_tokens=400)
    )
    writer = PromptWriter(options.model_directory)
    async with tier_node(options, load_base_model(options)) as placed:
        answers: list[TierAnswer] = []
        base: list[Answer] = []
        for number in range(plan.num_rounds + 1):
            options.progress(f"round {number} of {plan.num_rounds}")
            found: list[TierAnswer] = []
            for index, one in enumerate(placed.order(number)):
                seed = f"{options.seed} {number} {index}"
                for text in (seed, f"{seed} again"):
                    answer = await ask_tier(one, writer, _PROMPT_TOKENS, text)
                    if answer.tier == "remote" and one in placed.encoded:
                        answer = replace(answer, tier=_ENCODED)
                    found.append(answer)
                prompt = writer.write(_PROMPT_TOKENS, f"{seed} base")
                base.append(await ask(one.client, None, prompt))
            # The first round fills the tiers.
            answers += found if number else []
        segments = await _segments(placed, writer, plan, options)
        described = await placed.flash[0].client.get_adapter(placed.flash[0].alias)
    adapter = described.adapter
    return _result(
        answers,
        base,
        segments,
        {
            "adapter_rank": RANK,
            "remote": SERVER if placed.remote else "none: the node's operator names them",
            "serving_form": ServingForm.Name(adapter.certificate.form).removeprefix(
                "SERVING_FORM_"
            ),
            "original_bytes": adapter.size_bytes,
        },
    )


async def _segments(
    placed: TierNode, writer: PromptWriter, plan: _Plan, options: BenchOptions
) -> dict[str, list[Segment]]:
    held, resident, *loaded = placed.flash
    asked: dict[str, list[PlacedAdapter]] = dict(zip(_CASES, ([], [resident], loaded), strict=True))
    segments: dict[str, list[Segment]] = {case: [] for case in _CASES}
    for number in range(plan.num_segments):
        options.progress(f"streams beside loads, {number + 1} of {plan.num_segments}")
        for case in _CASES:
            await ask(resident.client, resident.alias, writer.write(_PROMPT_TOKENS, f"{number}"))
            seed = f"{options.seed} {number} {case}"
            segments[case].append(
                await run_segment(held, asked[case], writer, seed, plan.stream_tokens)
            )
    return segments


def _reference_s(num_references: int = 10_000) -> list[float]:
    """Seconds for taking the reference of an adapter in memory, on a full slot table."""
    slots = AdapterSlots(SLOTS)
    digests = [f"sha256:{number:064x}" for number in range(SLOTS)]
    slots.acquire(digests, 0.0)
    for digest in digests:
        slots.mark_resident(digest, 1, 0.0)
    slots.release(digests, 0.0)
    seconds = []
    for number in range(num_references):
        digest = digests[number % SLOTS]
        started_s = time.perf_counter()
        slots.acquire([digest], float(number))
        seconds.append(time.perf_counter() - started_s)
        slots.release([digest], float(number))
    return seconds


def _result(
    answers: Sequence[TierAnswer],
    base: Sequence[Answer],
    segments: dict[str, list[Segment]],
    described: dict[str, Any],
) -> BenchResult:
    by_tier = {
        tier: found for tier in _ROWS if (found := [one for one in answers if one.tier == tier])
    }
    ready_s = {tier: [one.answer.ready_s for one in found] for tier, found in by_tier.items()}
    ready_s["memory"] = [
        node_s + reference_s
        for node_s, reference_s in zip(ready_s["memory"], _reference_s(), strict=False)
    ]
    loads = [one for one in answers if one.tier != "memory"]
    if not loads:
        raise BenchError("no request had to load its adapter: the node has more slots than this")
    gaps_ms = {
        case: _milliseconds([gap for segment in found for gap in segment.gaps_s], 99)
        for case, found in segments.items()
    }
    growth = round(gaps_ms[_CASES[2]] / gaps_ms[_CASES[1]], 3)
    bytes_read = round(median([one.bytes_read for one in loads]))
    return BenchResult(
        results={
            **described,
            "flash_bytes_read_per_load": bytes_read,
            "original_to_read": round(described["original_bytes"] / bytes_read, 2),
            "tiers": [
                *(
                    _tier_row(tier, ready_s[tier], [one.answer for one in found])
                    for tier, found in by_tier.items()
                ),
                _tier_row("no adapter", [one.ready_s for one in base], base),
            ],
            "stages_p50_ms": [
                _stage_row(tier, found) for tier, found in by_tier.items() if tier != "memory"
            ],
            "token_gaps": [
                {
                    "streams": case,
                    "gaps": sum(len(segment.gaps_s) for segment in found),
                    "short_requests": sum(segment.num_requests for segment in found),
                    "p50_ms": _milliseconds([gap for one in found for gap in one.gaps_s], 50),
                    "p99_ms": gaps_ms[case],
                }
                for case, found in segments.items()
            ],
        },
        targets=[
            *(
                Target.at_most(
                    f"{tier}: ready to run, median, ms",
                    limit_ms,
                    _milliseconds(ready_s[tier], 50) if tier in ready_s else None,
                )
                for tier, limit_ms in _LIMITS_MS.items()
            ),
            Target.at_most(
                "p99 gap of streams: beside loads / beside requests", _MAX_GAP_GROWTH, growth
            ),
        ],
    )


def _tier_row(tier: str, ready_s: Sequence[float], answers: Sequence[Answer]) -> dict[str, Any]:
    first_s = [one.first_token_s for one in answers]
    return {
        "tier": tier,
        "requests": len(answers),
        "ready_p50_ms": _milliseconds(ready_s, 50),
        "ready_p99_ms": _milliseconds(ready_s, 99),
        "first_token_p50_ms": _milliseconds(first_s, 50),
        "first_token_p99_ms": _milliseconds(first_s, 99),
    }


def _stage_row(tier: str, found: Sequence[TierAnswer]) -> dict[str, Any]:
    stages = [one.stages for one in found if one.stages is not None]
    return {
        "tier": tier,
        **{
            name.removesuffix("_s"): _milliseconds([getattr(one, name) for one in stages], 50)
            for name in _STAGES
        },
        "remote_bytes": round(median([one.remote_bytes for one in found])),
    }


def _milliseconds(seconds: Sequence[float], rank: float) -> float:
    value_s = percentile(seconds, rank)
    assert value_s is not None  # every case has values
    return round(value_s * 1000, 3)
