"""`sampling`: what choosing the tokens costs beside the step that makes the logits.

The choice is what the engine does for 8 rows of the model's vocabulary: the check that they are
finite, and the sampler, once a row. The step decodes one token of 8 streams with 8 adapters.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bench.contest import contest, medians
from bench.engine_cases import DISTINCT, NUM_STREAMS
from bench.measure import median
from bench.model_files import find_model_files
from bench.peers.roster import NATIVE
from bench.result import BenchError, BenchOptions, BenchResult, Target
from services.inference.engine.sampler import SequenceSampler, finite_rows
from services.inference.engine.sequence import SamplingParams

_MAX_SHARE = 0.05
_LOGITS_STD = 3.0
"""About that of the default model's logits."""
_NEW_TOKENS, _QUICK_NEW_TOKENS = 64, 8
_ROUNDS, _QUICK_ROUNDS = 5, 2
_REPEATS = 50
_WAYS = {
    "greedy": SamplingParams(),
    "temperature 0.7": SamplingParams(temperature=0.7, seed=1),
    "temperature 0.7, top-p 0.9": SamplingParams(temperature=0.7, top_p=0.9, seed=1),
    "temperature 0.7, top-k 40": SamplingParams(temperature=0.7, top_k=40, seed=1),
    "temperature 0.7, top-k 40, repetition penalty 1.1": SamplingParams(
        temperature=0.7, top_k=40, repetition_penalty=1.1, seed=1
    ),
}


def run(options: BenchOptions) -> BenchResult:
    """Measures the step and every way of choosing, in turn."""
    files = find_model_files(options)
    rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    case = DISTINCT[8]
    with contest(
        [NATIVE],
        files,
        seed=options.seed,
        num_threads=options.num_threads,
        new_tokens=_QUICK_NEW_TOKENS if options.quick else _NEW_TOKENS,
        progress=options.progress,
    ) as engines:
        if not engines.loaded:
            raise BenchError(f"the native back end did not start: {engines.skipped[NATIVE.name]}")
        speed = medians(engines.measure(case, rounds))[NATIVE.name]
    # The step's own time holds an argmax of the rows, a small part of what is measured here.
    step_s = NUM_STREAMS / speed
    ways = {
        name: _choose(params, files.model.vocab_size, options.seed)
        for name, params in _WAYS.items()
    }
    taken_s: dict[str, float] = {}
    for name, choose in ways.items():
        options.progress(name)
        taken_s[name] = _time(choose)
    shares = {name: round(took_s / step_s, 4) for name, took_s in taken_s.items()}
    return BenchResult(
        results={
            "vocab_size": files.model.vocab_size,
            "rows": NUM_STREAMS,
            "step_ms": round(step_s * 1000, 3),
            "sampling": [
                {
                    "sampling": name,
                    "ms_for_8_rows": round(took_s * 1000, 3),
                    "share_of_step": shares[name],
                }
                for name, took_s in taken_s.items()
            ],
        },
        targets=[
            Target.at_most(f"{name}: share of a step", _MAX_SHARE, share)
            for name, share in shares.items()
        ],
    )


def _choose(params: SamplingParams, vocab_size: int, seed: int) -> Callable[[], None]:
    draw = np.random.default_rng(seed)
    logits = draw.normal(0.0, _LOGITS_STD, (NUM_STREAMS, vocab_size)).astype(np.float32)
    prompt = draw.integers(0, vocab_size, 64).tolist()
    samplers = [SequenceSampler(params, prompt, None) for _ in range(NUM_STREAMS)]

    def choose() -> None:
        for sampler, row, is_finite in zip(samplers, logits, finite_rows(logits), strict=True):
            assert is_finite
            sampler.sample(row)

    return choose


def _time(choose: Callable[[], None]) -> float:
    taken_s = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        choose()
        taken_s.append(time.perf_counter() - begin)
    return median(taken_s)
