"""Replays one trace of `auto` requests on a running stack, and sums up what came of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.measure import percentile
from bench.result import BenchError
from bench.route_cards import VersionCard, held_out_prompts
from edgelora.client import EdgeLoraClient
from edgelora.generation import Accepted, Delta, GenerationOptions
from edgelora.routed import Routing
from edgelora.routing import DeviceState, Router

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedAnswer:
    """One request of the trace, seen by its client. Times are seconds from sending."""

    prompt: str
    first_token_s: float
    response_s: float
    routing: Routing


def write_trace(groups: Sequence[str], num_requests: int, seed: int) -> list[str]:
    """Held-out prompts of all groups, evenly mixed; the same for the same seed."""
    draw = random.Random(seed)
    prompts = {group: held_out_prompts(group) for group in groups}
    return [draw.choice(prompts[draw.choice(groups)]) for _ in range(num_requests)]


async def replay(
    client: EdgeLoraClient, trace: Sequence[str], num_clients: int, output_tokens: int
) -> list[RoutedAnswer]:
    """Sends the requests in their order, `num_clients` at once: each answer lets the next go."""
    waiting = list(reversed(trace))
    answers: list[RoutedAnswer] = []

    async def send_in_turn() -> None:
        while waiting:
            answers.append(await ask_auto(client, waiting.pop(), output_tokens))

    await asyncio.gather(*(send_in_turn() for _ in range(num_clients)))
    return answers


async def ask_auto(client: EdgeLoraClient, prompt: str, output_tokens: int) -> RoutedAnswer:
    """Sends one request and reads it to its end."""
    events = client.chat(
        [("user", prompt)],
        adapters="auto",
        options=GenerationOptions(max_tokens=output_tokens, ignore_eos=True),
        timeout_s=_TIMEOUT_S,
    )
    started_s = time.perf_counter()
    first_token_s: float | None = None
    routing: Routing | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Accepted):
                routing = event.routing
            elif isinstance(event, Delta) and event.token_ids and first_token_s is None:
                first_token_s = time.perf_counter() - started_s
    if first_token_s is None or routing is None:
        raise BenchError("a request ended without a token or without the router's choice")
    return RoutedAnswer(
        prompt=prompt,
        first_token_s=first_token_s,
        response_s=time.perf_counter() - started_s,
        routing=routing,
    )


class QualityJudge:
    """What the router itself expects a choice to lose, against the best there is."""

    def __init__(
        self, router: Router, cards: Sequence[VersionCard], digests: Sequence[str]
    ) -> None:
        self._router = router
        self._table = router.table(
            [router.prototype(card.description, card.examples) for card in cards]
        )
        self._index = {digest: index for index, digest in enumerate(digests)}
        self._groups = [card.group for card in cards]

    def loss(self, answer: RoutedAnswer) -> float:
        """Expected loss in nats a token; 0 where the best candidate, or the base model, served."""
        if not answer.routing.adapters:
            return 0.0
        scores = self._router.scores(
            self._router.embed(answer.prompt),
            self._table,
            DeviceState(),
            np.ones(len(self._groups), np.bool_),
        )
        served = self._index[answer.routing.adapters[0].digest]
        return self._router.temperature * float(scores[:-1].max() - scores[served])


def summarise_answers(answers: Sequence[RoutedAnswer], judge: QualityJudge) -> dict[str, Any]:
    """One row of a table."""
    responses_s = [answer.response_s for answer in answers]
    losses = [judge.loss(answer) for answer in answers]
    reasons = [answer.routing.reason for answer in answers]
    decisions_s = [answer.routing.decision_s for answer in answers]
    return {
        "requests": len(answers),
        "response_mean_ms": _milliseconds(sum(responses_s) / len(answers)),
        "response_p50_ms": _milliseconds(percentile(responses_s, 50)),
        "response_p99_ms": _milliseconds(percentile(responses_s, 99)),
        "first_token_mean_ms": _milliseconds(
            sum(answer.first_token_s for answer in answers) / len(answers)
        ),
        "resident": round(reasons.count("resident") / len(answers), 3),
        "base": round(reasons.count("base") / len(answers), 3),
        "adapters_used": len({r.digest for answer in answers for r in answer.routing.adapters}),
        "loss_mean_nats": round(sum(losses) / len(answers), 4),
        "loss_max_nats": round(max(losses), 4),
        "decision_p50_ms": _milliseconds(percentile(decisions_s, 50)),
        "decision_p99_ms": _milliseconds(percentile(decisions_s, 99)),
    }


def _milliseconds(seconds: float | None) -> float:
    assert seconds is not None  # there are answers
    return round(seconds * 1000, 2)
