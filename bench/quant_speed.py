"""Speed of the same model in two forms in one engine, computing in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import median
from bench.peers.process import PeerError, PeerProcess
from bench.quant_models import Form
from bench.result import BenchError

PROMPT_TOKENS, PREFILL_TOKENS = 64, 512
STREAMS = (1, 8)
_WARM_TOKENS = 4


def measure_speed(
    forms: Sequence[Form],
    place: Path,
    *,
    vocab_size: int,
    threads: int,
    new_tokens: int,
    rounds: int,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    """Returns case -> form -> tokens a second: medians of rounds A B A B, after one to warm up.

    Both forms are loaded all the time. Decoding counts each stream's tokens after its first.
    Raises BenchError when an engine fails.
    """
    with ExitStack() as opened:
        processes = {}
        try:
            for form in forms:
                progress(f"{form.model}, {form.weights}: loading for speed")
                process = opened.enter_context(form.contender.start(place))
                process.ask(
                    "load",
                    threads=threads,
                    max_streams=max(STREAMS),
                    max_tokens=max(PREFILL_TOKENS, PROMPT_TOKENS + new_tokens) + 1,
                    adapters=[],
                    **form.arguments,
                )
                processes[form.weights] = process
            found: dict[str, dict[str, list[float]]] = {}
            for number in range(rounds + 1):
                progress(f"{forms[0].model}: round {number} of {rounds}")
                draw = np.random.default_rng([seed, number])
                for case, measure in _cases(draw, vocab_size, new_tokens if number else None):
                    for weights, process in processes.items():
                        speed = measure(process)
                        if number:
                            found.setdefault(case, {}).setdefault(weights, []).append(speed)
        except PeerError as error:
            raise BenchError(f"{forms[0].model}: {error}") from error
    return {
        case: {weights: round(median(speeds), 1) for weights, speeds in by_weights.items()}
        for case, by_weights in found.items()
    }


def _cases(
    draw: np.random.Generator, vocab_size: int, new_tokens: int | None
) -> list[tuple[str, Callable[[PeerProcess], float]]]:
    tokens = _WARM_TOKENS if new_tokens is None else new_tokens
    cases: list[tuple[str, Callable[[PeerProcess], float]]] = []
    for streams in STREAMS:
        prompts = draw.integers(100, vocab_size, (streams, PROMPT_TOKENS)).tolist()
        name = f"decode, {streams} stream{'s' * (streams > 1)}"
        cases.append((name, partial(_decode, prompts=prompts, tokens=tokens)))
    (prompt,) = draw.integers(100, vocab_size, (1, PREFILL_TOKENS)).tolist()
    cases.append((f"prefill, {PREFILL_TOKENS} tokens", partial(_prefill, prompt=prompt)))
    return cases


def _decode(process: PeerProcess, *, prompts: list[list[int]], tokens: int) -> float:
    adapters: list[Any] = [None] * len(prompts)
    done = process.ask("decode", prompts=prompts, adapters=adapters, new_tokens=tokens)
    return len(prompts) * tokens / float(done["decode_s"])


def _prefill(process: PeerProcess, *, prompt: list[int]) -> float:
    return len(prompt) / float(process.ask("prefill", prompt=prompt, adapter=None)["seconds"])
