"""`perplexity`: what each engine's form of the weights costs in quality.

WikiText-2's test text (its path is in EDGELORA_WIKITEXT) is cut into windows of 512 tokens without
overlap; every token of a window but the first is predicted from those before it. The same tokens
for every engine; no adapters.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from bench.model_files import ModelFiles, find_model_files
from bench.peers.process import PeerError
from bench.peers.roster import Contender, contenders
from bench.result import BenchError, BenchOptions, BenchResult, Target

VARIABLE = "EDGELORA_WIKITEXT"
"""Environment variable with the path of WikiText-2's test text."""
WINDOW_TOKENS = 512
_WINDOWS, _QUICK_WINDOWS = 60, 2
_MAX_LOSS = 0.02
"""Stated bound: native may be at most this share above torch."""
_ENGINES = ("torch", "llama.cpp", "vllm")


@dataclass(frozen=True, slots=True)
class Perplexity:
    """One engine's perplexity, or why there is none."""

    value: float | None
    reason: str | None = None


def run(options: BenchOptions) -> BenchResult:
    """Measures ours (native and torch), llama.cpp's two files and vLLM."""
    windows = read_windows(options)
    if windows is None:
        raise BenchError(f"{VARIABLE} is not set: give it the path of WikiText-2's test text")
    files = find_model_files(options)
    candidates = contenders([*_ENGINES, *options.peers])
    found = measure_perplexities(candidates, files, windows, options)
    values = {name: one.value for name, one in found.items()}
    native, torch = values.get("native"), values.get("torch")
    loss = None if native is None or torch is None else round(native / torch - 1, 5)
    return BenchResult(
        results={
            "windows": len(windows),
            "window_tokens": WINDOW_TOKENS,
            "perplexity": [
                {
                    "engine": one.name,
                    "weights": one.weights,
                    "perplexity": found[one.name].value,
                    "note": found[one.name].reason,
                }
                for one in candidates
            ],
        },
        targets=[Target.at_most("native_above_torch", _MAX_LOSS, loss)],
    )


def read_windows(
    options: BenchOptions, environ: Mapping[str, str] = os.environ
) -> list[list[int]] | None:
    """The first windows of the text, as tokens; None when the variable is not set."""
    path = environ.get(VARIABLE)
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{VARIABLE} names no readable file") from error
    tokenizer = Tokenizer.from_file(str(options.model_directory / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    count = min(_QUICK_WINDOWS if options.quick else _WINDOWS, len(ids) // WINDOW_TOKENS)
    return [ids[index * WINDOW_TOKENS : (index + 1) * WINDOW_TOKENS] for index in range(count)]


def measure_perplexities(
    candidates: Sequence[Contender],
    files: ModelFiles,
    windows: list[list[int]],
    options: BenchOptions,
) -> dict[str, Perplexity]:
    """Asks each engine in turn, without adapters; name -> perplexity."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as logs:
        for contender in candidates:
            options.progress(f"perplexity of {contender.name}")
            found[contender.name] = _measure(contender, files, windows, options, Path(logs))
    return found


def _measure(
    contender: Contender,
    files: ModelFiles,
    windows: list[list[int]],
    options: BenchOptions,
    logs: Path,
) -> Perplexity:
    if reason := contender.missing or files.missing(contender):
        return Perplexity(None, reason)
    with contender.start(logs) as process:
        try:
            process.ask(
                "load",
                threads=options.num_threads,
                max_streams=contender.windows_at_once,
                max_tokens=WINDOW_TOKENS + 1,
                adapters=[],
                **files.arguments(contender),
            )
            summed = process.ask("perplexity", windows=windows)
        except PeerError as error:
            return Perplexity(None, str(error))
    return Perplexity(round(math.exp(summed["nll"] / summed["tokens"]), 3))
