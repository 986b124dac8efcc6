"""`sampling`: what choosing the tokens costs beside the step that makes the logits.

The choice is what the engine does for 8 rows of the model's vocabulary: the settings of each row,
the back end's sampler, the record of what was chosen. The step decodes one token of 8 streams with
8 adapters.
"""

from __future__ import annotations

from typing import Any

from bench.contest import contest, medians
from bench.engine_cases import DISTINCT, NUM_STREAMS
from bench.model_files import find_model_files
from bench.peers.roster import NATIVE
from bench.result import BenchError, BenchOptions, BenchResult, Target

_MAX_SHARE = 0.05
_NEW_TOKENS, _QUICK_NEW_TOKENS = 64, 8
_ROUNDS, _QUICK_ROUNDS = 5, 2
_REPEATS = 50
_WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "temperature 0.7": dict(temperature=0.7, seed=1),
    "temperature 0.7, top-p 0.9": dict(temperature=0.7, top_p=0.9, seed=1),
    "temperature 0.7, top-k 40": dict(temperature=0.7, top_k=40, seed=1),
    "temperature 0.7, top-k 40, repetition penalty 1.1": dict(
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
        # The step holds the greedy choice, a small part of it.
        step_s = NUM_STREAMS / medians(engines.measure(case, rounds))[NATIVE.name]
        taken_s: dict[str, float] = {}
        for name, params in _WAYS.items():
            options.progress(name)
            sampled = engines.loaded[0].process.ask(
                "sample",
                params=params,
                rows=NUM_STREAMS,
                vocab_size=files.model.vocab_size,
                seed=options.seed,
                repeats=_REPEATS,
            )
            taken_s[name] = float(sampled["seconds"])
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
