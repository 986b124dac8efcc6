"""Memory of serving many tasks: a process each way, read when every task has served texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.classify_engines import ENGINES, OURS, TRANSFORMERS, WHOLE, TaskFiles, loaded
from bench.worker_process import Memory

_STEP_TEXTS = 8
_MB = 1e6


def measure_memory(
    files: TaskFiles,
    texts: Sequence[NDArray[np.int32]],
    log_directory: Path,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """A row for each way: our adapters, our engine and transformers with whole models.

    Every task serves its share of `texts`, so that what is mapped has really been used.
    """
    rows = []
    count = len(files.adapters)
    ours = next(one for one in ENGINES if one.name == OURS)
    for engine in (ours, WHOLE, TRANSFORMERS):
        progress(f"memory of {count} tasks: {engine.name}")
        with loaded(engine, files, log_directory, num_threads=1) as process:
            for start in range(0, len(texts), _STEP_TEXTS):
                step = texts[start : start + _STEP_TEXTS]
                process.encode(step, [(start + row) % count for row in range(len(step))])
            memory = Memory.of(process.pid)
        rows.append(
            {
                "way": engine.name,
                "tasks": count,
                "weights": engine.weights,
                "rss_mb": round(memory.resident / _MB, 1),
                "pss_mb": round(memory.proportional / _MB, 1),
            }
        )
    return rows
