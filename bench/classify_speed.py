"""Speed of the encoders on the same texts, in turn, never at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.classify_engines import ENGINES, OURS, LoadedEngine, TaskFiles, loaded
from bench.peers.process import PeerError

NUM_TASKS = 8
_WARM_UP = 3


def measure_speed(
    files: TaskFiles,
    texts: Sequence[NDArray[np.int32]],
    log_directory: Path,
    *,
    rounds: int,
    steps: int,
    progress: Callable[[str], None],
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each engine: batches of 8 texts, each for another task, one thread.

    A round runs `steps` batches on every engine; the median over the rounds is compared. Returns
    the rows, ours first, and why others are missing.
    """
    batches = [texts[start : start + NUM_TASKS] for start in range(0, len(texts), NUM_TASKS)]
    batches = [batch for batch in batches if len(batch) == NUM_TASKS]
    missing: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        engines: list[LoadedEngine] = []
        for engine in ENGINES:
            if engine.missing is not None:
                missing[engine.name] = engine.missing
                continue
            progress(f"loading {engine.name}")
            try:
                one = stack.enter_context(loaded(engine, files, log_directory, num_threads=1))
            except PeerError as error:
                missing[engine.name] = str(error)
                continue
            for batch in batches[:_WARM_UP]:
                one.encode(batch, range(NUM_TASKS))
            engines.append(one)
        seconds: dict[str, list[float]] = {one.engine.name: [] for one in engines}
        for number in range(rounds):
            progress(f"batches of {NUM_TASKS}: round {number + 1} of {rounds}")
            for one in engines if number % 2 == 0 else reversed(engines):
                first = number * steps
                chosen = [batches[(first + index) % len(batches)] for index in range(steps)]
                took = [one.encode(batch, range(NUM_TASKS))[0] for batch in chosen]
                seconds[one.engine.name].append(float(np.mean(took)))
        for one in engines:
            median = float(np.median(seconds[one.engine.name]))
            rows.append(
                {
                    "engine": one.engine.name,
                    "version": one.version,
                    "weights": one.engine.weights,
                    "ms_per_batch": round(1e3 * median, 2),
                    "texts_per_s": round(NUM_TASKS / median, 1),
                }
            )
    return rows, missing


def measure_requests(
    files: TaskFiles, texts: Sequence[NDArray[np.int32]], log_directory: Path
) -> dict[str, Any]:
    """Our engine, one text at a time and one thread, each for the next task."""
    ours = next(one for one in ENGINES if one.name == OURS)
    with loaded(ours, files, log_directory, num_threads=1) as process:
        took = np.array(
            [
                process.encode([text], [number % len(files.adapters)])[0]
                for number, text in enumerate(texts)
            ]
        )
    took = took[_WARM_UP:]
    return {
        "requests": len(took),
        "requests_per_s": round(float(len(took) / took.sum()), 1),
        "p50_ms": round(1e3 * float(np.quantile(took, 0.5)), 3),
        "p99_ms": round(1e3 * float(np.quantile(took, 0.99)), 3),
    }
