"""What the training of a classifier says about itself: report.json, report.md and README.md."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch

from edgelora.adapter_format.head import ScopeRule
from edgelora.toolchain.card_words import plain_line, quoted_lines, yaml_text
from edgelora.toolchain.classification.labelled_text import ClassificationData, LabelledText
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.classification.scope import Accuracy, TradeOff
from services.chassis.base_model import BaseModel

REPORT_FILE = "report.json"
TEXT_FILE = "report.md"
CARD_FILE = "README.md"
_PACKAGES = ("torch", "transformers", "peft", "tokenizers")


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a training run."""

    rule: ScopeRule | None
    accuracies: dict[str, Accuracy]
    """Of validation and, where there are any, test texts; with and without the threshold."""
    trade_off: list[TradeOff]
    """Of other thresholds, on the validation texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierReport:
    """Everything that `report.json` holds."""

    name: str
    base_model: str
    base_digest: str
    options: dict[str, Any]
    labels: int
    encoder_parameters: int
    """That were trained, the head left out."""
    head_parameters: int
    weights_bytes: int
    weights_sha256: str
    texts: dict[str, dict[str, int]]
    """Split -> how many texts are `in_scope` and `out_of_scope`."""
    train_sha256: str
    out_of_scope: dict[str, Any] | None
    """The rule, as in head.json."""
    measures: dict[str, dict[str, Any]]
    """Of validation and test texts, with and without the threshold: see Accuracy."""
    trade_off: list[TradeOff]
    mean_of: int
    """Runs whose mean it is; 0 for a run of its own."""
    licence: str
    permissions: tuple[str, ...]
    precision: str
    threads: int
    wall_seconds: float
    loss_curve: list[tuple[int, float]]
    """(step, mean loss in nats since the entry before)."""
    versions: dict[str, str]

    @classmethod
    def of(
        cls,
        name: str,
        base: BaseModel,
        options: ClassificationOptions,
        data: ClassificationData,
        model: EncoderClassifier,
        measured: Measured,
        weights_file: Path,
        *,
        mean_of: int,
        licence: str,
        permissions: tuple[str, ...],
        train_sha256: str,
        loss_curve: list[tuple[int, float]],
        wall_seconds: float,
    ) -> Self:
        """Puts it together; the weights are written already."""
        weights = weights_file.read_bytes()
        splits = {"train": data.train, "validation": data.validation, "test": data.test}
        return cls(
            name=name,
            base_model=base.name,
            base_digest=base.digest,
            options=asdict(options),
            labels=len(data.labels),
            encoder_parameters=sum(one.numel() for one in model.encoder_parameters.values()),
            head_parameters=sum(one.numel() for one in model.head_layer.parameters()),
            weights_bytes=len(weights),
            weights_sha256=hashlib.sha256(weights).hexdigest(),
            texts={split: _count(texts) for split, texts in splits.items()},
            train_sha256=train_sha256,
            out_of_scope=None if measured.rule is None else asdict(measured.rule),
            measures={split: asdict(one) for split, one in measured.accuracies.items()},
            trade_off=measured.trade_off,
            mean_of=mean_of,
            licence=licence,
            permissions=permissions,
            precision=model.precision,
            threads=torch.get_num_threads(),
            wall_seconds=round(wall_seconds, 1),
            loss_curve=loss_curve,
            versions={"python": platform.python_version()}
            | {package: importlib.metadata.version(package) for package in _PACKAGES},
        )

    def save(self, directory: Path) -> None:
        """Writes `report.json`."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / REPORT_FILE).write_text(text, encoding="utf-8")


def write_card(
    report: ClassifierReport, directory: Path, description: str, examples: Sequence[str]
) -> None:
    """Writes README.md: what the classifier is for, how it was made, what was measured."""
    lines = [
        "---",
        f"base_model: {report.base_model}",
        "library_name: peft",
        "pipeline_tag: text-classification",
        f"license: {yaml_text(report.licence)}",
        "---",
        "",
        f"# {plain_line(report.name)}",
        "",
        plain_line(description),
        "",
        "| | |",
        "|---|---|",
        f"| base model | {report.base_model} ({report.base_digest}) |",
        f"| trained | {_trained(report)} |",
        f"| head | {report.labels} labels, {report.head_parameters} parameters; mean pooling, "
        "length 1 (head.json) |",
        f"| size | {report.weights_bytes / 1e6:.2f} MB |",
        f"| training data | {_texts(report, 'train')} |",
        f"| hash of the data | sha256:{report.train_sha256} |",
        f"| licence | {plain_line(report.licence)} |",
        f"| permissions | {plain_line(', '.join(report.permissions))} |",
        *(
            f"| {split.replace('_', ' ')} | {_measure(measure)} |"
            for split, measure in report.measures.items()
        ),
    ]
    if examples:
        lines += ["", "Texts it is meant for:", ""]
        lines += quoted_lines(examples)
    lines += ["", "The whole record is in `report.json`.", ""]
    (directory / CARD_FILE).write_text("\n".join(lines), encoding="utf-8")


def write_report(report: ClassifierReport, directory: Path, pictures: Sequence[str]) -> None:
    """Writes report.md: everything that was set, and everything that was measured."""
    rule = report.out_of_scope
    settings = {
        "base model": f"{report.base_model}, {report.base_digest}",
        "trained": _trained(report),
        **{f"{split} texts": _texts(report, split) for split in report.texts},
        "training data": f"sha256:{report.train_sha256}",
        "out of scope": "no rule"
        if rule is None
        else plain_line(
            ", ".join(f"{name} {value}" for name, value in rule.items() if value is not None)
        ),
        **{split.replace("_", " "): _measure(one) for split, one in report.measures.items()},
        **{name.replace("_", " "): str(value) for name, value in report.options.items()},
        "precision": report.precision,
        "time": f"{report.wall_seconds:.0f} s on {report.threads} threads",
        "packages": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
    }
    lines = [f"# Training of {plain_line(report.name)}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in settings.items()]
    lines += ["", *(f"![{picture}]({picture})\n" for picture in pictures)]
    (directory / TEXT_FILE).write_text("\n".join(lines), encoding="utf-8")


def _texts(report: ClassifierReport, split: str) -> str:
    counts = report.texts[split]
    return f"{counts['in_scope']} texts, {counts['out_of_scope']} without a label"


def _measure(measure: dict[str, Any]) -> str:
    words = (
        (measure["in_scope"], "right in scope"),
        (measure["out_of_scope_recall"], "of the others found"),
    )
    return ", ".join(f"{100 * value:.1f} % {what}" for value, what in words if value is not None)


def _trained(report: ClassifierReport) -> str:
    options = report.options
    if options["method"] == "probe":
        return "the head alone"
    if report.mean_of:
        return f"the mean of {report.mean_of} runs of all {report.encoder_parameters} parameters"
    if options["method"] == "full":
        return f"every weight, {report.encoder_parameters} parameters"
    return (
        f"LoRA r={options['r']}, alpha={options['alpha']:g}, on {', '.join(options['targets'])}, "
        f"{report.encoder_parameters} parameters"
    )


def _count(texts: Sequence[LabelledText]) -> dict[str, int]:
    outside = sum(one.label is None for one in texts)
    return {"in_scope": len(texts) - outside, "out_of_scope": outside}
