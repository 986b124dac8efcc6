"""`engine`: our native back end beside llama.cpp, OpenVINO GenAI, vLLM and transformers + PEFT.

Every engine is a process of its own that loads once. The same prompts, adapters and numbers of
tokens, greedy choice included, two threads unless told otherwise; they compute in turn, never at
once, and medians of the rounds are compared. Ours is the back end through the interface the engine
uses. A decode figure counts each stream's tokens after its first over the time from the first
token on; an engine that can not batch different adapters runs them one after another, and the
times add up.
"""

from __future__ import annotations

from typing import Any

from bench.bandwidth import read_bandwidth
from bench.contest import Contest, contest, medians
from bench.engine_cases import (
    CASES,
    ONE_BASE,
    PREFILL_TOKENS,
    PROMPT_TOKENS,
    RANK,
    SHAPE_CASES,
    SMALL_RANK,
)
from bench.engine_targets import engine_targets, shape_targets
from bench.model_files import ModelFiles, find_model_files
from bench.peers.roster import OURS, contenders
from bench.perplexity import Perplexity, measure_perplexities, read_windows
from bench.result import BenchError, BenchOptions, BenchResult
from services.chassis.base_model import NATIVE_FILE

_NEW_TOKENS, _QUICK_NEW_TOKENS = 64, 8
_ROUNDS, _QUICK_ROUNDS = 5, 2
_SHAPE_MODELS = ("prepared", "Q4_0")
"""The forms that random weights are written in."""


def run(options: BenchOptions) -> BenchResult:
    """Measures every engine that is there; the others are named with the reason."""
    files = find_model_files(options)
    candidates = contenders(options.peers)
    if options.shape is not None:
        candidates = [one for one in candidates if one.model in _SHAPE_MODELS]
    cases = CASES if options.shape is None else SHAPE_CASES
    rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    perplexities: dict[str, Perplexity] = {}
    if options.shape is None and (windows := read_windows(options)):
        perplexities = measure_perplexities(candidates, files, windows, options)
    bandwidth = read_bandwidth(options.num_threads)
    with contest(
        candidates,
        files,
        seed=options.seed,
        num_threads=options.num_threads,
        new_tokens=_QUICK_NEW_TOKENS if options.quick else _NEW_TOKENS,
        progress=options.progress,
    ) as engines:
        if OURS not in (one.contender.name for one in engines.loaded):
            raise BenchError(f"the native back end did not start: {engines.skipped[OURS]}")
        engines.try_adapters()
        runs = {case.name: engines.measure(case, rounds) for case in cases}
    # Whatever else the machine did meanwhile, it can read this fast.
    bandwidth = max(bandwidth, read_bandwidth(options.num_threads))
    speeds = {case: medians(by_engine) for case, by_engine in runs.items()}
    served_base = frozenset(
        one.contender.name for one in engines.loaded if one.adapter_applied is False
    )
    share = _bandwidth_share(files, speeds[ONE_BASE.name].get(OURS), bandwidth)
    return BenchResult(
        results={
            "model": files.model.name,
            "threads": options.num_threads,
            "rounds": rounds,
            "prompt_tokens": PROMPT_TOKENS,
            "new_tokens": engines.new_tokens,
            "prefill_tokens": PREFILL_TOKENS,
            "adapters": f"rank {RANK} on all linear modules; q and v: rank {SMALL_RANK}",
            "read_bandwidth_gb_per_s": round(bandwidth / 1e9, 1),
            "bandwidth_share_1_stream": share,
            "skipped": engines.skipped,
            "engines": _engines(engines, perplexities),
            "tokens_per_s": [
                {
                    "case": case.name,
                    **{
                        name: _marked(speed, case.uses_adapters and name in served_base)
                        for name, speed in speeds[case.name].items()
                    },
                }
                for case in cases
            ],
            "runs": {
                case: {name: [round(one, 1) for one in found] for name, found in by_engine.items()}
                for case, by_engine in runs.items()
            },
        },
        targets=engine_targets(speeds, served_base)
        if options.shape is None
        else shape_targets(options.shape, speeds, served_base, share),
    )


def _marked(speed: float, is_base: bool) -> float | str:
    """A speed with adapters of an engine that served the base is no number of the table."""
    return f"{speed:g} (base)" if is_base else speed


def _engines(engines: Contest, perplexities: dict[str, Perplexity]) -> list[dict[str, Any]]:
    rows = []
    for one in engines.loaded:
        name = one.contender.name
        found = perplexities.get(name)
        rows.append(
            {
                "engine": name,
                "version": one.facts["version"],
                "weights": one.contender.weights,
                "adapter_applied": one.adapter_applied,
                "perplexity": found.value if found else None,
            }
        )
    return rows


def _bandwidth_share(files: ModelFiles, speed: float | None, bandwidth: float) -> float | None:
    """Bytes of weights that a step of one stream reads a second, over the machine's bandwidth."""
    if speed is None:
        return None
    # The embedding is the head as well, so every byte of the file is read once a step.
    size = (files.directory / NATIVE_FILE).stat().st_size
    return round(size * speed / bandwidth, 3)
