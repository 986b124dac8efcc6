"""`doors`: the same requests over gRPC, the OpenAI API and the Ollama API, in turn.

Plain prompts of 64 tokens, each stream with an adapter of its own, greedy, to one gateway. A turn
is eight requests through one door, one, four or eight of them at once; the doors take turns, and
who begins does too. Nothing of a prompt is kept between requests, so that all doors can be given
the same ones. The clients keep their connections and run on the same cores as the node; those of
the HTTP doors do no more than split an answer into its lines.

"First token" is from sending to the first text a client has. "Around" is what of that lies outside
the node's own figure, which starts when the request was accepted: reading the request, who asks,
and the way back. "Gateway" is the processor time of that process, its idle work included.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import Deployment, deployment, load_base_model
from bench.door_clients import Door, DoorRecord, DoorRequest, opened_doors
from bench.measure import median, percentile
from bench.process_watch import read_pids
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions, BenchResult, Target

STREAMS = (1, 4, 8)
PROMPT_TOKENS = 64
RANK = 16
_NUM_REQUESTS = 8
_NEW_TOKENS, _QUICK_NEW_TOKENS = 64, 16
_ROUNDS, _QUICK_ROUNDS = 15, 2
_MAX_FIRST_TOKEN_RATIO = 1.2
_MAX_CPU_RATIO = 1.2
_REFERENCE = "gRPC"
_MIB = 2**20


def run(options: BenchOptions) -> BenchResult:
    """Measures rounds of turns, after a round that loads the adapters."""
    if options.address is not None:
        raise BenchError("doors needs a stack of its own: leave out --address")
    return asyncio.run(_run(options))


@dataclass(slots=True)
class Turns:
    """What one door did with one number of streams."""

    records: list[DoorRecord] = field(default_factory=list)
    tokens_per_s: list[float] = field(default_factory=list)
    """Of each turn: new tokens of all streams over its time."""
    gateway_s: float = 0.0
    """Processor time of the gateway's process."""

    def wait_ms(self, rank: float) -> float:
        """A percentile of the waits for the first text."""
        return _ms([record.first_text_wait_s for record in self.records], rank)

    @property
    def gateway_s_per_1000(self) -> float:
        """Processor seconds of the gateway for 1,000 new tokens."""
        return 1000 * self.gateway_s / sum(record.num_tokens for record in self.records)


async def _run(options: BenchOptions) -> BenchResult:
    new_tokens = _QUICK_NEW_TOKENS if options.quick else _NEW_TOKENS
    rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    writer = PromptWriter(options.model_directory)
    settings = {"EDGELORA_INFERENCE_PREFIX_CACHING": "false"}
    async with deployment(options, settings) as node:
        await _register(node, options)
        assert node.http_address is not None
        assert node.pids is not None
        gateway = psutil.Process(read_pids(node.pids)["gateway"])
        async with opened_doors(node.http_address, node.keys) as doors:
            for door in doors.values():
                await _turn(door, _requests(node, writer, "warm", new_tokens), _NUM_REQUESTS)
            begin_bytes = gateway.memory_info().rss
            turns = {(size, name): Turns() for size in STREAMS for name in doors}
            for number in range(rounds):
                options.progress(f"round {number + 1} of {rounds}")
                requests = _requests(node, writer, f"{options.seed} {number}", new_tokens)
                for size in STREAMS:
                    for name in _in_turn(list(doors), number):
                        await _measure(turns[size, name], gateway, doors[name], requests, size)
            end_bytes = gateway.memory_info().rss
    return BenchResult(
        results={
            "prompt_tokens": PROMPT_TOKENS,
            "new_tokens": new_tokens,
            "adapter_rank": RANK,
            "rounds": rounds,
            "gateway_memory_mib": {
                "before": round(begin_bytes / _MIB, 1),
                "after": round(end_bytes / _MIB, 1),
            },
            "first_token": list(_first_token_rows(turns)),
            "tokens": list(_token_rows(turns)),
        },
        targets=list(_targets(turns)),
    )


async def _register(node: Deployment, options: BenchOptions) -> None:
    model = load_base_model(options)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapters-") as directory:
        for index in range(_NUM_REQUESTS):
            await node.register(
                write_random_adapter(
                    Path(directory) / str(index),
                    model,
                    rank=RANK,
                    modules=ALL_LINEAR,
                    seed=options.seed + index,
                )
            )


def _requests(
    node: Deployment, writer: PromptWriter, seed: str, new_tokens: int
) -> list[DoorRequest]:
    return [
        DoorRequest(
            adapter=adapter,
            prompt=writer.write(PROMPT_TOKENS, f"{seed} {index}"),
            max_tokens=new_tokens,
        )
        for index, adapter in enumerate(node.adapters)
    ]


def _in_turn(names: list[str], number: int) -> list[str]:
    """The names, another one first in each round."""
    first = number % len(names)
    return names[first:] + names[:first]


async def _measure(
    turns: Turns, gateway: psutil.Process, door: Door, requests: Sequence[DoorRequest], size: int
) -> None:
    before = gateway.cpu_times()
    records = await _turn(door, requests, size)
    after = gateway.cpu_times()
    turns.gateway_s += after.user + after.system - before.user - before.system
    turns.records += records
    num_tokens = sum(record.num_tokens for record in records)
    busy_s = max(one.finished_s for one in records) - min(one.sent_s for one in records)
    turns.tokens_per_s.append(num_tokens / busy_s)


async def _turn(door: Door, requests: Sequence[DoorRequest], size: int) -> list[DoorRecord]:
    """Sends all requests, `size` of them at once."""
    records: list[DoorRecord] = []
    for begin in range(0, len(requests), size):
        records += await asyncio.gather(*map(door.send, requests[begin : begin + size]))
    return records


def _first_token_rows(turns: Mapping[tuple[int, str], Turns]) -> Iterator[dict[str, Any]]:
    for (size, name), found in turns.items():
        yield {
            "streams": size,
            "door": name,
            "requests": len(found.records),
            "p50_ms": found.wait_ms(50),
            "p95_ms": found.wait_ms(95),
            "p99_ms": found.wait_ms(99),
            "ratio": _ratio(found.wait_ms(50), turns[size, _REFERENCE].wait_ms(50)),
            "around_p50_ms": _ms([record.around_s for record in found.records], 50),
        }


def _token_rows(turns: Mapping[tuple[int, str], Turns]) -> Iterator[dict[str, Any]]:
    for (size, name), found in turns.items():
        reference = turns[size, _REFERENCE]
        yield {
            "streams": size,
            "door": name,
            "tokens_per_s": round(median(found.tokens_per_s), 1),
            "ratio": _ratio(median(found.tokens_per_s), median(reference.tokens_per_s)),
            "gateway_s_per_1000": round(found.gateway_s_per_1000, 4),
            "gateway_ratio": _ratio(found.gateway_s_per_1000, reference.gateway_s_per_1000),
        }


def _targets(turns: Mapping[tuple[int, str], Turns]) -> Iterator[Target]:
    for (size, name), found in turns.items():
        if name == _REFERENCE:
            continue
        reference, streams = turns[size, _REFERENCE], f"{size} stream{'s' if size > 1 else ''}"
        yield Target.at_most(
            f"{name} / {_REFERENCE}, first token, {streams}",
            _MAX_FIRST_TOKEN_RATIO,
            _ratio(found.wait_ms(50), reference.wait_ms(50)),
        )
        yield Target.at_most(
            f"{name} / {_REFERENCE}, gateway's processor time, {streams}",
            _MAX_CPU_RATIO,
            _ratio(found.gateway_s_per_1000, reference.gateway_s_per_1000),
        )


def _ms(values_s: Sequence[float], rank: float) -> float:
    value_s = percentile(values_s, rank)
    assert value_s is not None
    return round(value_s * 1000, 2)


def _ratio(value: float, reference: float) -> float | None:
    return round(value / reference, 3) if reference else None
