"""Times decisions of the router, in a process of its own on one core.

    python -m bench.route_decisions ROUTER_FILE NUM_DECISIONS

prints a JSON list. The store is in the same process; what its answer takes over its socket is in
the figures of the running stack.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import percentile
from bench.route_cards import demo_groups, held_out_prompts, version_cards
from edgelora.routing import DeviceState
from edgelora.v1.adapter_store_service_pb2 import ListCandidatesResponse, RouteCandidate
from edgelora.v1.ticket_pb2 import Sealed
from services.scheduler.routing.adapter_choice import AdapterChoice
from services.scheduler.routing.candidates import CandidateCache
from services.scheduler.routing.decision import RoutingRules
from services.scheduler.routing.router_source import RouterSource

SIZES = (8, 64, 256)
_RULES = RoutingRules(top_k=2, min_share=0.1, min_mix_share=0.15, max_quality_loss=0.05)
_LONG_CHARS = 4096
_SEED = 1


class _Listing:
    """Lists the same candidates again and again, half of them resident."""

    def __init__(self, num_candidates: int) -> None:
        groups = demo_groups()
        cards = version_cards(groups, -(-num_candidates // len(groups)), _SEED)
        self._candidates = [
            RouteCandidate(
                digest=f"sha256:{number:064x}",
                lowest_rank=16,
                description=card.description,
                example_prompts=card.examples,
            )
            for number, card in enumerate(cards[:num_candidates])
        ]

    async def list_candidates(self, claim: Sealed, version: str) -> ListCandidatesResponse:
        return ListCandidatesResponse(
            candidates=() if version else self._candidates,
            version="1",
            resident_digests=[candidate.digest for candidate in self._candidates[::2]],
        )


def main(arguments: Sequence[str]) -> int:
    """Measures and prints."""
    router_file, num_decisions = Path(arguments[0]), int(arguments[1])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(asyncio.run(_measure(router_file, num_decisions))))
    return 0


async def _measure(router_file: Path, num_decisions: int) -> list[dict[str, Any]]:
    prompts = [prompt for group in demo_groups() for prompt in held_out_prompts(group)]
    long = (" ".join(prompts) * 10)[:_LONG_CHARS]
    rows = [await _row(router_file, size, prompts, num_decisions, "held-out") for size in SIZES]
    return [*rows, await _row(router_file, 64, [long], num_decisions, "4096 characters")]


async def _row(
    router_file: Path, size: int, prompts: Sequence[str], num_decisions: int, kind: str
) -> dict[str, Any]:
    choice = AdapterChoice(
        RouterSource([router_file], time.monotonic),
        CandidateCache(_Listing(size)),
        _RULES,
        time.perf_counter,
    )
    draw = random.Random(_SEED)

    async def decide() -> tuple[float, float]:
        begin_s = time.process_time()
        made = await choice.choose(
            Sealed(), "bench", draw.choice(prompts), device=DeviceState(), max_rank=None
        )
        return made.decision_s * 1000, (time.process_time() - begin_s) * 1000

    first_ms, _ = await decide()
    times_ms, processor_ms = zip(*[await decide() for _ in range(num_decisions)], strict=True)
    return {
        "adapters": size,
        "prompts": kind,
        "decisions": num_decisions,
        "p50_ms": _rounded(percentile(times_ms, 50)),
        "p99_ms": _rounded(percentile(times_ms, 99)),
        "processor_p99_ms": _rounded(percentile(processor_ms, 99)),
        "first_with_cards_ms": _rounded(first_ms),
    }


def _rounded(value: float | None) -> float:
    assert value is not None  # there is a decision
    return round(value, 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
