"""`sessions`: the first token of a conversation's next turn, once others have used the KV cache.

Two tenants have a conversation of 512 tokens each, one of them in a session. Then a third one's
prompts take all of a small KV cache, and both go on. Measured by a gRPC client through the gateway,
from sending to the first token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.deployment import deployment
from bench.measure import percentile
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.client import EdgeLoraClient
from edgelora.generation import Delta, GenerationOptions, Usage

PROMPT_TOKENS = 512
QUESTION_TOKENS = 16
OUTPUT_TOKENS = 8
KV_CACHE_MIB = 64
MOST_OF_FIRST_TOKEN = 0.5
"""Of what it takes to compute the conversation again."""
_LEAST_BYTES_PER_TOKEN = 16 * 1024
"""No model that a benchmark runs keeps less of a token."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer."""

    text: str
    first_token_s: float
    num_cached_tokens: int


def run(options: BenchOptions) -> BenchResult:
    """Measures rounds of two turns for each tenant."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    num_rounds = 5 if options.quick else 20
    writer = PromptWriter(options.model_directory)
    environ = {"EDGELORA_INFERENCE_KV_CACHE_SIZE": f"{KV_CACHE_MIB}MiB"}
    kept: list[Turn] = []
    plain: list[Turn] = []
    async with deployment(options, environ, num_tenants=3) as node:
        keeper, other, busy = node.clients
        options.progress("measuring")
        for number in range(num_rounds):
            tenants = [(keeper, "bench", kept), (other, "", plain)]
            if number % 2:
                tenants.reverse()
            opened = [
                await _open(client, session, writer, f"{options.seed} {number} {session}")
                for client, session, _ in tenants
            ]
            await _use_all(busy, writer, f"{options.seed} {number}")
            for (client, session, turns), prompt in zip(tenants, opened, strict=True):
                question = writer.write(QUESTION_TOKENS, f"{options.seed} {number}")
                turns.append(await _ask(client, prompt + question, session))
        await keeper.forget_session()
    kept_ms, plain_ms = (_percentile_ms(turns, 50) for turns in (kept, plain))
    share = None if not kept_ms or not plain_ms else round(kept_ms / plain_ms, 3)
    return BenchResult(
        results={
            "conversation_tokens": PROMPT_TOKENS + OUTPUT_TOKENS,
            "question_tokens": QUESTION_TOKENS,
            "kv_cache_mib": KV_CACHE_MIB,
            "rounds": num_rounds,
            "next_turn": [_row("with a session", kept), _row("without", plain)],
        },
        targets=[Target.at_most("session_of_plain_first_token", MOST_OF_FIRST_TOKEN, share)],
    )


async def _open(client: EdgeLoraClient, session: str, writer: PromptWriter, seed: str) -> str:
    """The first turn; returns the conversation."""
    prompt = writer.write(PROMPT_TOKENS, seed)
    return prompt + (await _ask(client, prompt, session)).text


async def _use_all(busy: EdgeLoraClient, writer: PromptWriter, seed: str) -> None:
    """Has prompts computed until none of the cache is left of what others only left behind."""
    num_kv_tokens = KV_CACHE_MIB * 2**20 // _LEAST_BYTES_PER_TOKEN
    for number in range(-(-num_kv_tokens // PROMPT_TOKENS)):
        await _ask(busy, writer.write(PROMPT_TOKENS, f"{seed} busy {number}"), "")


async def _ask(client: EdgeLoraClient, prompt: str, session: str) -> Turn:
    started_s = time.monotonic()
    text, first_token_s, usage = "", None, None
    options = GenerationOptions(max_tokens=OUTPUT_TOKENS, ignore_eos=True)
    async for event in client.generate(prompt, options=options, session=session):
        if isinstance(event, Delta):
            first_token_s = first_token_s or time.monotonic() - started_s
            text += event.text
        elif isinstance(event, Usage):
            usage = event
    if first_token_s is None or usage is None:
        raise BenchError("an answer had no token")
    return Turn(text, first_token_s, usage.num_cached_prompt_tokens)


def _row(name: str, turns: Sequence[Turn]) -> dict[str, Any]:
    return {
        "case": name,
        "turns": len(turns),
        "p50_ms": _percentile_ms(turns, 50),
        "p95_ms": _percentile_ms(turns, 95),
        "least_cached_tokens": min(turn.num_cached_tokens for turn in turns),
        "most_cached_tokens": max(turn.num_cached_tokens for turn in turns),
    }


def _percentile_ms(turns: Sequence[Turn], rank: float) -> float | None:
    value_s = percentile([turn.first_token_s for turn in turns], rank)
    return None if value_s is None else round(value_s * 1000, 1)
