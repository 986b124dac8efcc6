"""`quant`: what rounding the base model costs in quality, and what it saves in size and time.

Three models: the default one, whose published weights lie on a 4-bit grid and must stay exact, and
two made from it whose weights do not, so that quantisers can be judged: its norms folded and its
residual stream rotated at random (the same function), and after 300 steps of full fine-tuning on
WikiText-2's validation text. Of each, every form of the very same weights: unquantised, ours
(`--quant plain` and `mixed`, calibrated on the validation text, once with no more bytes than
llama.cpp's Q4_0, once with those of 16 bits over 2.9) and llama.cpp's own. The norms, a thousandth
of each, are not counted.

Perplexity is of WikiText-2's test text (its path is in EDGELORA_WIKITEXT, the validation text lies
beside it as valid.txt), cut into windows of 512 tokens at a stride of 512, the second half of each
scored: over the first 60 windows for every form, over all of them for the forms that are compared.
Each form is served by its own engine; ours and llama.cpp's round activations to 8 bits, bfloat16
runs in our engine, float32 in transformers. Perplexities are kept in EDGELORA_HOME from run to run,
by digest of weights, text and engine. Speed is that of our engine with both forms in turn.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench.perplexity import VARIABLE
from bench.quant_models import (
    DEFAULT,
    FLOAT32,
    HALF,
    LARGER,
    MIXED,
    ROTATED,
    SMALLER,
    SOURCE,
    TUNED,
    Form,
    Workshop,
)
from bench.quant_perplexity import WINDOW_TOKENS, Examiner, Windows, cut, total
from bench.quant_speed import measure_speed
from bench.result import BenchError, BenchOptions, BenchResult, Target
from services.chassis.base_model import BaseModel

_CALIBRATION = "valid.txt"
_COMPARED = (HALF, MIXED, "Q4_0")
"""Forms that all windows are computed for, three to six minutes each."""
_ENGINES = {FLOAT32.name: "transformers"}
"""What to call them, where that is not their name."""
_MAX_RISE = 0.3
_MIN_FASTER = 2.1


@dataclass(frozen=True, slots=True)
class _Plan:
    models: Sequence[str]
    max_windows: int
    new_tokens: int
    rounds: int


_FULL_PLAN = _Plan((DEFAULT, ROTATED, TUNED), max_windows=10**6, new_tokens=128, rounds=5)
_QUICK_PLAN = _Plan((DEFAULT,), max_windows=2, new_tokens=16, rounds=2)


@dataclass(frozen=True, slots=True)
class Judged:
    """One form of one model."""

    form: Form
    first: float
    """Perplexity over the first piece."""
    whole: float | None
    """Over all windows; None where only the first piece was computed."""


def run(options: BenchOptions) -> BenchResult:
    """Makes what is missing, computes perplexities that are not known, measures speed."""
    test, calibration = find_texts()
    plan = _QUICK_PLAN if options.quick else _FULL_PLAN
    pieces = _pieces(test, options, plan.max_windows)
    workshop = Workshop(options, calibration)
    speeds: dict[str, dict[str, dict[str, float]]] = {}
    vocab_size = BaseModel.load(options.model_directory).vocab_size
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as name:
        logs = Path(name)
        examiner = Examiner(workshop.cache, options, logs)
        models = {model: workshop.forms(model) for model in plan.models}
        every = [form for forms in models.values() for form in forms]
        # First what all are compared by: the rest takes an hour, and may be done later.
        for form in every:
            examiner.examine(form, pieces[:1])
        judged = [_judge(form, examiner, pieces) for form in every]
        for model, forms in models.items():
            speeds[model] = measure_speed(
                [form for form in forms if form.weights in (HALF, MIXED, LARGER)],
                logs,
                vocab_size=vocab_size,
                threads=options.num_threads,
                new_tokens=plan.new_tokens,
                rounds=plan.rounds,
                seed=options.seed,
                progress=options.progress,
            )
    results: dict[str, Any] = {
        "windows": sum(len(piece) for piece in pieces),
        "first_windows": len(pieces[0]),
        "window_tokens": WINDOW_TOKENS,
        "stride": WINDOW_TOKENS,
        "scored": "the second half of each window",
        "perplexity": [_row(one, judged) for one in judged],
        "files": [_file_row(one.form) for one in judged if one.form.matrices],
        "speed": [
            {
                "model": model,
                "case": case,
                **speed,
                **{f"{weights} / {HALF}": times for weights, times in _times(speed).items()},
            }
            for model, by_case in speeds.items()
            for case, speed in by_case.items()
        ],
    }
    if workshop.missing:
        results["missing"] = workshop.missing
    return BenchResult(results=results, targets=targets(judged, speeds))


def find_texts(environ: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """WikiText-2's test text, and the one to calibrate with. Raises BenchError."""
    path = environ.get(VARIABLE)
    if path is None:
        raise BenchError(f"{VARIABLE} is not set: give it the path of WikiText-2's test text")
    test = Path(path)
    calibration = test.with_name(_CALIBRATION)
    if not test.is_file():
        raise BenchError(f"{VARIABLE} names no readable file")
    if not calibration.is_file():
        raise BenchError(f"there is no {_CALIBRATION} beside the file that {VARIABLE} names")
    return test, calibration


def _pieces(test: Path, options: BenchOptions, max_windows: int) -> list[Windows]:
    tokenizer = Tokenizer.from_file(str(options.model_directory / "tokenizer.json"))
    ids = tokenizer.encode(test.read_text(encoding="utf-8"), add_special_tokens=False).ids
    pieces = cut(ids, window_tokens=WINDOW_TOKENS, max_windows=max_windows)
    if not pieces:
        raise BenchError(f"the text that {VARIABLE} names is shorter than {WINDOW_TOKENS} tokens")
    return pieces


def _judge(form: Form, examiner: Examiner, pieces: Sequence[Windows]) -> Judged:
    wanted = pieces if form.weights in _COMPARED else pieces[:1]
    found = examiner.examine(form, wanted)
    whole = total(found).perplexity if len(found) == len(pieces) else None
    return Judged(form, found[0].perplexity, whole)


def _row(one: Judged, judged: Sequence[Judged]) -> dict[str, Any]:
    matrices = one.form.matrices
    exact = find(judged, one.form.model, SOURCE)
    return {
        "model": one.form.model,
        "weights": one.form.weights,
        "engine": _ENGINES.get(one.form.contender.name, one.form.contender.peer),
        "megabytes": None if matrices is None else round(matrices.num_bytes / 1e6, 1),
        "first": round(one.first, 3),
        "rise": None if exact is None else round(one.first - exact.first, 3),
        "all": None if one.whole is None else round(one.whole, 3),
    }


def _file_row(form: Form) -> dict[str, Any]:
    assert form.matrices is not None
    return {
        "model": form.model,
        "weights": form.weights,
        "matrices_bytes": form.matrices.num_bytes,
        "file_bytes": form.file.stat().st_size,
        "bits_per_weight": round(form.matrices.bits_per_weight, 3),
        "largest_change": form.largest_change,
        "kinds": form.matrices.kinds_text,
    }


def _times(speed: Mapping[str, float]) -> dict[str, float]:
    """Of the quantised forms over bfloat16."""
    return {
        weights: round(value / speed[HALF], 2)
        for weights, value in speed.items()
        if weights != HALF
    }


def find(judged: Sequence[Judged], model: str, weights: str) -> Judged | None:
    """One of them, or None."""
    found = (one for one in judged if (one.form.model, one.form.weights) == (model, weights))
    return next(found, None)


def targets(
    judged: Sequence[Judged],
    speeds: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> list[Target]:
    """What each model should reach, then the least of all in speed."""
    wanted: list[Target] = []
    for model in dict.fromkeys(one.form.model for one in judged):
        half, ours = find(judged, model, HALF), find(judged, model, MIXED)
        assert half is not None
        assert ours is not None
        if model == DEFAULT:
            change = ours.form.largest_change
            wanted.append(Target.at_most(f"{model}: largest change of a weight", 0.0, change))
        for one in (ours, find(judged, model, LARGER)):
            if one is not None:
                name = f"{model}, {one.form.weights}"
                rise, smaller = _difference(one, half), 1 / _bytes_ratio(one, half)
                wanted += [
                    Target.at_most(f"{name}: perplexity over bfloat16", _MAX_RISE, rise),
                    Target.at_least(f"{name}: 16 bits / ours, bytes", SMALLER, round(smaller, 3)),
                ]
        llama = find(judged, model, "Q4_0")
        above = None if llama is None else _difference(llama, ours)
        wanted.append(Target.at_least(f"{model}: llama.cpp Q4_0 above mixed", 0.0, above))
        if model != DEFAULT:
            ratio = None if llama is None else round(_bytes_ratio(ours, llama), 4)
            wanted.append(Target.at_most(f"{model}: mixed / llama.cpp Q4_0, bytes", 1.0, ratio))
    for case in next(iter(speeds.values())):
        if case.startswith("decode"):
            least = min(_times(by_case[case])[MIXED] for by_case in speeds.values())
            wanted.append(Target.at_least(f"{case}: ours / bfloat16", _MIN_FASTER, least))
    return wanted


def _bytes_ratio(one: Judged, other: Judged) -> float:
    assert one.form.matrices is not None
    assert other.form.matrices is not None
    return one.form.matrices.num_bytes / other.form.matrices.num_bytes


def _difference(one: Judged, other: Judged) -> float:
    """Of perplexities over all windows; over the first piece where one has no more."""
    if one.whole is not None and other.whole is not None:
        return round(one.whole - other.whole, 4)
    return round(one.first - other.first, 4)
