"""`classify`: intents of CLINC150 on the default encoder, and what serving many tasks takes.

The classifiers are those of `make classifiers`, some seeds of each and the mean of whole models,
which it keeps in EDGELORA_HOME; of what is missing one seed is trained first, once (about half an
hour on two idle cores), but for --quick. The data set's own split: training texts with the 100 that
belong to no intent, thresholds from its validation texts, the test texts looked at once for each
classifier. An in-scope text that is called out of scope is wrong.

Memory and speed are measured with adapters of the trained one's shape, one a task, beside the same
tasks as whole models, every engine in a process of its own. Memory is read when all tasks together
have served the test texts. Engines compute in turn, one thread each, on the same batches of 8 test
texts for 8 tasks; an engine that can not batch different models runs them one after another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.classify_engines import OURS, TaskFiles
from bench.classify_memory import measure_memory
from bench.classify_models import prepare_merged, write_merged, write_tasks
from bench.classify_quality import PAPER, served_rows, trained_rows
from bench.classify_speed import NUM_TASKS, measure_requests, measure_speed
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.toolchain.classification.clinc import FULL, data_file, place_of, train_missing
from edgelora.toolchain.errors import ToolchainError
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME

_SERVED = "LoRA r=8"
_SHAPE_TEXTS = 2000
_MIN_IN_SCOPE, _MIN_RECALL = 0.969, 0.523
_MIN_KEPT, _MAX_PARAMETERS = 0.987, 0.01
_MIN_SAVED = 0.73
_MIN_REQUESTS_PER_S, _MAX_P99_MS = 15.0, 67.0
_MIN_SPEED_UP = 2.0
_MAX_SERVED_LOSS = 0.003


@dataclass(frozen=True, slots=True)
class _Plan:
    num_tasks: int
    rounds: int
    steps: int
    requests: int


_FULL_PLAN = _Plan(num_tasks=20, rounds=9, steps=30, requests=2000)
_QUICK_PLAN = _Plan(num_tasks=NUM_TASKS, rounds=3, steps=5, requests=200)


def run(options: BenchOptions) -> BenchResult:
    """Trains what is missing, then measures."""
    plan = _QUICK_PLAN if options.quick else _FULL_PLAN
    directory = options.model_directory
    if directory.name == DEFAULT_NAME:
        directory = directory.with_name(DEFAULT_ENCODER_NAME)
    home = directory.parent.parent
    trained = place_of(home, _SERVED, 0)
    try:
        file = data_file()
        if options.quick and not trained.exists():
            raise BenchError("no classifier is trained: run `make classifiers`")
        if not options.quick:
            train_missing(home, directory.name, 1, options.num_threads)
        texts, truth = _read_test(file, directory)
    except ToolchainError as error:
        raise BenchError(str(error)) from error
    order = np.random.default_rng(options.seed).permutation(len(texts))
    drawn = [texts[index] for index in order]
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as name:
        place = Path(name)
        options.progress(f"writing {plan.num_tasks} tasks as adapters and as whole models")
        files = _write_files(directory, trained, place, plan.num_tasks, options.seed)
        few = TaskFiles(
            base=directory,
            adapters=files.adapters[:NUM_TASKS],
            merged=files.merged[:NUM_TASKS],
            prepared=files.prepared[:NUM_TASKS],
        )
        one = TaskFiles(
            base=directory,
            adapters=files.adapters[:1],
            merged=files.merged[:1],
            prepared=files.prepared[:1],
        )
        speed, missing = measure_speed(
            few,
            drawn[:_SHAPE_TEXTS],
            place,
            rounds=plan.rounds,
            steps=plan.steps,
            progress=options.progress,
        )
        requests = measure_requests(few, drawn[: plan.requests], place)
        memory = measure_memory(files, drawn, place, options.progress)
        served = (
            []
            if options.quick
            else served_rows(trained, one, texts, truth, place, options.progress)
        )
    return _result(trained_rows(home), memory, speed, missing, requests, served)


def _read_test(file: Path, directory: Path) -> tuple[list[NDArray[np.int32]], NDArray[np.intp]]:
    # Imported only now: it brings torch, which the processes that are measured must not inherit.
    from edgelora.toolchain.classification.labelled_text import read_data
    from edgelora.toolchain.classification.train import EncodedTexts, load_tokenizer

    data = read_data(file)
    encoded = EncodedTexts(data.test, data.labels, load_tokenizer(directory, 512))
    return encoded.token_ids, encoded.truth


def _write_files(directory: Path, trained: Path, place: Path, count: int, seed: int) -> TaskFiles:
    adapters = write_tasks(trained, place / "adapters", count, seed)
    merged, prepared = [], []
    for number, adapter in enumerate(adapters):
        merged.append(place / "merged" / str(number))
        write_merged(directory, adapter, merged[-1])
        prepared.append(prepare_merged(merged[-1], place / "home", f"task-{number}"))
    return TaskFiles(base=directory, adapters=adapters, merged=merged, prepared=prepared)


def _result(
    rows: Sequence[dict[str, Any]],
    memory: Sequence[dict[str, Any]],
    speed: Sequence[dict[str, Any]],
    missing: dict[str, str],
    requests: dict[str, Any],
    served: Sequence[dict[str, Any]],
) -> BenchResult:
    by_name = {row["classifier"]: row for row in rows}
    best = max(rows, key=lambda row: row["validation_in_scope"])
    lora, full = by_name.get(_SERVED), by_name.get(FULL)
    kept = share = None
    if lora and full:
        kept = round(lora["in_scope"] / full["in_scope"], 4)
        share = round(lora["parameters"] / full["parameters"], 5)
    ours_mb, whole_mb = memory[0]["pss_mb"], min(row["pss_mb"] for row in memory[1:])
    saved = round(1 - ours_mb / whole_mb, 3)
    others = [row["texts_per_s"] for row in speed if not row["engine"].startswith("ours")]
    speed_up = round(speed[0]["texts_per_s"] / max(others), 2) if others else None
    lost = None
    if served:
        exact = next(row for row in served if row["engine"].startswith("transformers float32"))
        ours = next(row for row in served if row["engine"] == OURS)
        lost = round(exact["in_scope"] - ours["in_scope"], 4)
    results: dict[str, Any] = {
        "best": best["classifier"],
        "memory_saved": saved,
        "speed_up_over_best_peer": speed_up,
        "one_text_at_a_time": requests,
        "classifiers": list(rows),
        "paper": list(PAPER),
        "memory": list(memory),
        "speed": list(speed),
    }
    if served:
        results["served"] = list(served)
    if missing:
        results["missing"] = missing
    tasks = memory[0]["tasks"]
    return BenchResult(
        results=results,
        targets=[
            Target.at_least("accuracy in scope, the best", _MIN_IN_SCOPE, best["in_scope"]),
            Target.at_least("out-of-scope recall, the same", _MIN_RECALL, best["oos_recall"]),
            Target.at_least("r=8 / full fine-tuning, in scope", _MIN_KEPT, kept),
            Target.at_most("parameters of r=8 / full, head apart", _MAX_PARAMETERS, share),
            Target.at_least(f"memory saved, {tasks} tasks", _MIN_SAVED, saved),
            Target.at_least(
                "requests/s, one thread", _MIN_REQUESTS_PER_S, requests["requests_per_s"]
            ),
            Target.at_most("p99 of a request, ms", _MAX_P99_MS, requests["p99_ms"]),
            Target.at_least("texts/s of 8 tasks / best peer", _MIN_SPEED_UP, speed_up),
            Target.at_most("accuracy lost to 8 bits", _MAX_SERVED_LOSS, lost),
        ],
    )
