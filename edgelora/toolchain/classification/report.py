"""What the training of a classifier says about itself: report.json, README.md and card.json."""

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

from edgelora.adapter_format.card import (
    FILE,
    MAX_DESCRIPTION_CHARS,
    MAX_EXAMPLE_CHARS,
    MAX_EXAMPLES,
    parse_card,
)
from edgelora.adapter_format.head import ScopeRule
from edgelora.toolchain.classification.labelled_text import ClassificationData, LabelledText
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.classification.scope import Accuracy
from services.chassis.base_model import BaseModel

REPORT_FILE = "report.json"
CARD_FILE = "README.md"
_PACKAGES = ("torch", "transformers", "peft", "tokenizers")


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
    """Of validation texts with and without the rule, and of test texts: see Accuracy."""
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
        rule: ScopeRule | None,
        measures: dict[str, Accuracy],
        weights_file: Path,
        *,
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
            out_of_scope=None if rule is None else asdict(rule),
            measures={split: asdict(one) for split, one in measures.items()},
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


def write_card(report: ClassifierReport, directory: Path, description: str) -> None:
    """Writes README.md: what the classifier is for, how it was made, what was measured."""
    options = report.options
    train = report.texts["train"]
    lines = [
        "---",
        f"base_model: {report.base_model}",
        "library_name: peft",
        "pipeline_tag: text-classification",
        "---",
        "",
        f"# {report.name}",
        "",
        description,
        "",
        "| | |",
        "|---|---|",
        f"| base model | {report.base_model} ({report.base_digest[:19]}...) |",
        f"| trained | {_trained(report)} |",
        f"| head | {report.labels} labels, {report.head_parameters} parameters; mean pooling, "
        "length 1 (head.json) |",
        f"| size | {report.weights_bytes / 1e6:.2f} MB |",
        f"| training data | {train['in_scope']} texts, {train['out_of_scope']} without a label; "
        f"sha256 {report.train_sha256[:12]} |",
        f"| training | {options['epochs']} epochs, peak learning rate "
        f"{options['learning_rate']:g}, seed {options['seed']}, {report.precision}, "
        f"{report.wall_seconds:.0f} s on {report.threads} threads |",
    ]
    for split, measure in report.measures.items():
        words = [
            f"{100 * value:.1f} % {what}"
            for value, what in (
                (measure["in_scope"], "right in scope"),
                (measure["out_of_scope_recall"], "of the others found"),
            )
            if value is not None
        ]
        lines.append(f"| {split.replace('_', ' ')} | {', '.join(words)} |")
    lines += ["", "The whole record is in `report.json`.", ""]
    (directory / CARD_FILE).write_text("\n".join(lines), encoding="utf-8")


def _trained(report: ClassifierReport) -> str:
    options = report.options
    if options["method"] == "probe":
        return "the head alone"
    if options["method"] == "full":
        return f"every weight, {report.encoder_parameters} parameters"
    return (
        f"LoRA r={options['r']}, alpha={options['alpha']:g}, on {', '.join(options['targets'])}, "
        f"{report.encoder_parameters} parameters"
    )


def write_routing_card(directory: Path, description: str, texts: Sequence[LabelledText]) -> None:
    """Writes card.json: what it is for, with examples spread evenly over the training texts.

    The examples go wherever the adapter goes: this is for data that may be read by others.
    """
    fitting = [one.text for one in texts if one.label and len(one.text) <= MAX_EXAMPLE_CHARS]
    count = min(MAX_EXAMPLES, len(fitting))
    examples = [fitting[index * len(fitting) // count] for index in range(count)]
    card = {"description": description[:MAX_DESCRIPTION_CHARS], "examples": examples}
    data = (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode()
    parse_card(data)
    (directory / FILE).write_bytes(data)


def _count(texts: Sequence[LabelledText]) -> dict[str, int]:
    outside = sum(one.label is None for one in texts)
    return {"in_scope": len(texts) - outside, "out_of_scope": outside}
