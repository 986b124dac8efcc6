"""Reads what a classifier is trained on: texts with a label each, some of them with none.

Two forms. JSON lines, a text a line, where `null` says that a text belongs to no label:

    {"text": "wake me at noon", "label": "alarm"}

Or the shape of CLINC150 (Larson et al., EMNLP 2019), one JSON object with the splits `train`,
`val`, `test`, `oos_train`, `oos_val` and `oos_test`, each a list of [text, label]; all but `train`
may be missing.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.adapter_format.head import MAX_LABEL_CHARS, MAX_LABELS
from edgelora.toolchain.data_text import decode_data, is_text, read_data_file
from edgelora.toolchain.errors import ToolchainError

OUT_OF_SCOPE = "oos"
"""The label of texts that belong to none, unless another is named."""
HELD_OUT_SHARE = 0.1
"""Of the training texts, for validation where no texts are given for it."""
MIN_PER_LABEL = 2
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One text."""

    text: str
    label: str | None
    """None: it belongs to none of the labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationData:
    """What a run trains on, tunes on and is measured on."""

    train: tuple[LabelledText, ...]
    validation: tuple[LabelledText, ...]
    test: tuple[LabelledText, ...]
    """May be empty."""
    labels: tuple[str, ...]
    """Those of the training texts, sorted; without the one of the texts that belong to none."""
    train_sha256: str
    """Of the training file's bytes."""


def read_data(
    train: Path,
    *,
    validation: Path | None = None,
    test: Path | None = None,
    out_of_scope: str = OUT_OF_SCOPE,
    seed: int = 0,
) -> ClassificationData:
    """Reads the files; a tenth of each label is held out where nothing is there for validation.

    `out_of_scope`: the label that stands for none. Raises ToolchainError that names the file and
    the line, and no text.
    """
    content = read_data_file(train)
    splits = _splits(content, train.name, out_of_scope)
    for name, path in (("val", validation), ("test", test)):
        if path is not None:
            splits[name] = [
                one
                for texts in _splits(read_data_file(path), path.name, out_of_scope).values()
                for one in texts
            ]
    if not splits.get("val"):
        splits["train"], splits["val"] = _hold_out(splits["train"], seed)
    counts = Counter(one.label for one in splits["train"])
    labels = tuple(sorted(label for label in counts if label is not None))
    if not 2 <= len(labels) < MAX_LABELS:
        raise ToolchainError(
            f"{train.name}: a classifier needs 2 to {MAX_LABELS - 1} labels, found: {len(labels)}"
        )
    for name in ("val", "test"):
        strangers = {one.label for one in splits.get(name, [])} - {None, *labels}
        if strangers:
            raise ToolchainError(
                f"the {name} texts have {len(strangers)} labels that training never saw: "
                "leave them out, or add texts to train on"
            )
    return ClassificationData(
        train=tuple(splits["train"]),
        validation=tuple(splits["val"]),
        test=tuple(splits.get("test", ())),
        labels=labels,
        train_sha256=hashlib.sha256(content).hexdigest(),
    )


def _splits(data: bytes, name: str, out_of_scope: str) -> dict[str, list[LabelledText]]:
    content = decode_data(data, name)
    if not content.strip():
        raise ToolchainError(f"{name} is empty: give a text a line")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None  # more than one line, most likely
    if isinstance(document, dict) and "train" in document:
        return _clinc_splits(document, name, out_of_scope)
    return {
        "train": [
            _text_of_line(line, f"{name}, line {number}", out_of_scope)
            # At line breaks alone: other separators may stand inside JSON's texts.
            for number, line in enumerate(content.split("\n"), start=1)
            if line.strip()
        ]
    }


def _clinc_splits(
    document: dict[str, Any], where: str, out_of_scope: str
) -> dict[str, list[LabelledText]]:
    known = {*_SPLITS, *(f"oos_{name}" for name in _SPLITS)}
    if not document.keys() <= known:
        raise ToolchainError(f"{where} has other splits than {', '.join(sorted(known))}")
    splits: dict[str, list[LabelledText]] = {}
    for name in _SPLITS:
        for key in (name, f"oos_{name}"):
            rows = document.get(key, [])
            if not isinstance(rows, list):
                raise ToolchainError(f"{where}: {key} has to be a list of [text, label]")
            for number, row in enumerate(rows, start=1):
                place = f"{where}, {key}, text {number}"
                if not isinstance(row, list) or len(row) != 2:
                    raise ToolchainError(f"{place} has to be [text, label]")
                splits.setdefault(name, []).append(_labelled(row[0], row[1], place, out_of_scope))
    return splits


def _text_of_line(line: str, where: str, out_of_scope: str) -> LabelledText:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ToolchainError(f"{where} is no JSON") from error
    if not isinstance(document, dict) or document.keys() != {"text", "label"}:
        raise ToolchainError(f'{where} has to be {{"text": ..., "label": ...}}, nothing more')
    return _labelled(document["text"], document["label"], where, out_of_scope)


def _labelled(text: Any, label: Any, where: str, out_of_scope: str) -> LabelledText:
    if not is_text(text):
        raise ToolchainError(f"{where}: the text must not be empty, and be of whole characters")
    if label is None or label == out_of_scope:
        return LabelledText(text, None)
    if not isinstance(label, str) or not 1 <= len(label) <= MAX_LABEL_CHARS:
        raise ToolchainError(
            f"{where}: the label has to be null or a text of 1 to {MAX_LABEL_CHARS} characters"
        )
    if not label.isprintable() or label.isspace():
        raise ToolchainError(f"{where}: the label has to be printable, and more than spaces")
    return LabelledText(text, label)


def _hold_out(
    texts: Sequence[LabelledText], seed: int
) -> tuple[list[LabelledText], list[LabelledText]]:
    """A tenth of each label apart, at least one; the same for the same seed."""
    order = random.Random(seed)  # noqa: S311 - shuffling, no secret
    of_label: dict[str | None, list[LabelledText]] = {}
    for one in texts:
        of_label.setdefault(one.label, []).append(one)
    kept: list[LabelledText] = []
    held: list[LabelledText] = []
    for label, members in of_label.items():
        if label is not None and len(members) < MIN_PER_LABEL:
            raise ToolchainError(
                f"one label has {len(members)} text: give at least {MIN_PER_LABEL} of each, or "
                "--validation-data"
            )
        order.shuffle(members)
        count = max(1, round(HELD_OUT_SHARE * len(members))) if len(members) > 1 else 0
        held += members[:count]
        kept += members[count:]
    return kept, held
