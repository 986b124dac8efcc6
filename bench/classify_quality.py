"""How well the trained classifiers of CLINC150 do, and what a number format of an encoder costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.classify_engines import ENGINES, TaskFiles, loaded
from bench.classify_models import read_adapter
from bench.measure import median
from edgelora.toolchain.classification.clinc import CONFIGURATIONS, MEAN, place_of
from edgelora.toolchain.classification.scope import accuracy, judge
from services.chassis.base_model import BaseModel

PAPER: Sequence[dict[str, Any]] = (
    {"classifier": "BERT, trained with oos", "in_scope": 0.969, "oos_recall": 0.403},
    {"classifier": "BERT, threshold", "in_scope": 0.962, "oos_recall": 0.523},
    {"classifier": "MLP on sentence embeddings", "in_scope": 0.935, "oos_recall": 0.474},
    {"classifier": "FastText", "in_scope": 0.890, "oos_recall": 0.097},
)
"""Larson et al., EMNLP 2019, the table for the full data set."""
_STEP_TEXTS = 32


def trained_rows(home: Path) -> list[dict[str, Any]]:
    """A row for each configuration that is trained: medians over its seeds, on the test texts."""
    rows = []
    for name in (*CONFIGURATIONS, MEAN):
        reports: list[dict[str, Any]] = []
        while (file := place_of(home, name, len(reports)) / "report.json").is_file():
            reports.append(json.loads(file.read_text(encoding="utf-8")))
        if not reports:
            continue
        tests = [report["measures"]["test"] for report in reports]
        plain = [report["measures"]["test_without_threshold"] for report in reports]
        tuned = [report["measures"]["validation"] for report in reports]
        in_scope = [test["in_scope"] for test in tests]
        rows.append(
            {
                "classifier": name,
                "seeds": len(reports),
                "parameters": reports[0]["encoder_parameters"],
                "in_scope": _share(median(in_scope)),
                "from_to": f"{min(in_scope):.4f} to {max(in_scope):.4f}",
                "oos_recall": _share(median([test["out_of_scope_recall"] for test in tests])),
                "in_scope_no_threshold": _share(median([one["in_scope"] for one in plain])),
                "oos_recall_no_threshold": _share(
                    median([one["out_of_scope_recall"] for one in plain])
                ),
                "validation_in_scope": _share(median([one["in_scope"] for one in tuned])),
                "validation_oos_recall": _share(
                    median([one["out_of_scope_recall"] for one in tuned])
                ),
                "train_s": round(median([report["wall_seconds"] for report in reports])),
            }
        )
    return rows


def served_rows(
    trained: Path,
    files: TaskFiles,
    texts: Sequence[NDArray[np.int32]],
    truth: NDArray[np.intp],
    log_directory: Path,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """A row for each engine: how often the trained adapter is right through it."""
    head = read_adapter(trained, BaseModel.load(files.base)).head
    assert head is not None
    num_labels = len(head.labels) - 1
    rows = []
    for engine in ENGINES:
        if engine.missing is not None:
            continue
        progress(f"accuracy through {engine.name}")
        with loaded(engine, files, log_directory, num_threads=2) as process:
            order = np.argsort([len(text) for text in texts], kind="stable")
            parts = []
            for start in range(0, len(order), _STEP_TEXTS):
                step = [texts[index] for index in order[start : start + _STEP_TEXTS]]
                parts.append(process.encode(step, [0] * len(step))[1])
        vectors = np.concatenate(parts)[np.argsort(order, kind="stable")]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        logits = vectors @ head.weight.T + head.bias
        measured = accuracy(judge(logits, num_labels, head.out_of_scope), truth, num_labels)
        rows.append(
            {
                "engine": engine.name,
                "in_scope": _share(measured.in_scope),
                "oos_recall": _share(measured.out_of_scope_recall),
            }
        )
    return rows


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
