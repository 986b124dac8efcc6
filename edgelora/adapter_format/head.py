"""head.json: what makes a classifier of an encoder's adapter, beside the weights of its last layer.

    {"labels": ["balance", "transfer"], "pooling": "mean", "normalise": true,
     "out_of_scope": {"label": null, "score": "max_probability", "threshold": 0.35}}

The last layer itself is in adapter_model.safetensors, as PEFT saves it for sequence classification.
What is written here decides what the adapter answers, and is part of its digest. `labels` and
`pooling` have to be there; `normalise` is false without being said, and there is no `out_of_scope`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.strict_json import parse_object
from edgelora.error_tree import AdapterRejectedError

FILE = "head.json"
MAX_HEAD_BYTES = 512 << 10
MIN_LABELS = 2
MAX_LABELS = 4096
MAX_LABEL_CHARS = 200
MAX_THRESHOLD = 1e6
_REQUIRED = {"labels", "pooling"}
_OPTIONAL = {"normalise", "out_of_scope"}
_RULE_KEYS = {"label", "score", "threshold"}
Pooling = Literal["mean", "cls", "pooler"]
ScopeScore = Literal["max_probability", "energy"]
"""How sure a classifier is of a text: its largest probability, or the logarithm of the sum of the
exponentials of its logits (Liu et al., arXiv 2010.03759)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRule:
    """When a text belongs to none of the labels: any of the two conditions that are set."""

    label: str | None
    """It is out of scope when this is the likeliest label."""
    score: ScopeScore | None
    threshold: float | None
    """It is out of scope when the score is below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """What head.json says."""

    labels: tuple[str, ...]
    """2 to 4096, all different, each at most 200 printable characters."""
    pooling: Pooling
    normalise: bool
    out_of_scope: ScopeRule | None

    @classmethod
    def unnamed(cls, num_labels: int) -> HeadSettings:
        """Without the file: as transformers' BertForSequenceClassification has it."""
        return cls(
            labels=tuple(f"LABEL_{number}" for number in range(num_labels)),
            pooling="pooler",
            normalise=False,
            out_of_scope=None,
        )

    def canonical_bytes(self) -> bytes:
        """A valid head.json that says the same, equal for equal settings."""
        return json.dumps(
            asdict(self),
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
            ensure_ascii=False,
        ).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierHead:
    """A linear layer over a text's pooled vector, and what its outputs mean."""

    labels: tuple[str, ...]
    """At least 2, all different."""
    pooling: Pooling
    normalise: bool
    """Whether the pooled vector is scaled to length 1 first."""
    out_of_scope: ScopeRule | None
    weight: NDArray[np.float32]
    """Shape [labels, hidden_size]."""
    bias: NDArray[np.float32]
    """Shape [labels]."""


def parse_head(data: bytes) -> HeadSettings:
    """Reads the bytes of a head.json, and nothing else than what is described above.

    Raises AdapterRejectedError with `field` "head", or "head." and the key at fault.
    """
    if not data:
        raise _refuse("is empty: write the labels and the pooling in it, or remove it")
    if len(data) > MAX_HEAD_BYTES:
        raise _refuse(f"has {len(data)} bytes, the limit is {MAX_HEAD_BYTES}")
    try:
        document = parse_object(data, field=FILE)
    except AdapterRejectedError as error:
        raise AdapterRejectedError(error.message, field="head") from None
    if not _REQUIRED <= document.keys() <= _REQUIRED | _OPTIONAL:
        raise _refuse(
            "has to hold labels and pooling, may hold normalise and out_of_scope, no more"
        )
    labels = _labels(document["labels"])
    pooling = document["pooling"]
    if not isinstance(pooling, str) or pooling not in get_args(Pooling):
        raise _refuse(f"has to be one of {', '.join(get_args(Pooling))}", "pooling")
    normalise = document.get("normalise", False)
    if not isinstance(normalise, bool):
        raise _refuse("has to be true or false", "normalise")
    rule = document.get("out_of_scope")
    settings = HeadSettings(
        labels=labels,
        pooling=pooling,  # type: ignore[arg-type]
        normalise=normalise,
        out_of_scope=None if rule is None else _rule(rule, labels),
    )
    if len(settings.canonical_bytes()) > MAX_HEAD_BYTES:
        raise _refuse(f"is too long, the limit is {MAX_HEAD_BYTES} bytes")
    return settings


def _labels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not MIN_LABELS <= len(value) <= MAX_LABELS:
        raise _refuse(f"has to be a list of {MIN_LABELS} to {MAX_LABELS} labels", "labels")
    for number, label in enumerate(value, start=1):
        if not isinstance(label, str) or not 1 <= len(label) <= MAX_LABEL_CHARS:
            raise _refuse(
                f"label {number} has to be a text of 1 to {MAX_LABEL_CHARS} characters", "labels"
            )
        if not label.isprintable() or label.isspace():
            raise _refuse(f"label {number} has to be printable, and more than spaces", "labels")
    if len(set(value)) < len(value):
        raise _refuse("one label is there twice: each has to be different", "labels")
    return tuple(value)


def _rule(value: Any, labels: tuple[str, ...]) -> ScopeRule:
    key = "out_of_scope"
    if not isinstance(value, dict) or not value.keys() <= _RULE_KEYS:
        raise _refuse("has to be null, or hold label, score and threshold, no more", key)
    label, score, threshold = (value.get(name) for name in ("label", "score", "threshold"))
    if label is not None and label not in labels:
        raise _refuse("its label has to be null or one of the labels", key)
    if score is not None and score not in get_args(ScopeScore):
        raise _refuse(f"its score has to be null or one of {', '.join(get_args(ScopeScore))}", key)
    if (score is None) != (threshold is None):
        raise _refuse("score and threshold mean nothing without each other: set both", key)
    if threshold is not None:
        threshold = _threshold(threshold)
    if label is None and score is None:
        raise _refuse(
            "has no condition: set its label, or score and threshold, or null for it", key
        )
    return ScopeRule(label=label, score=score, threshold=threshold)


def _threshold(value: Any) -> float:
    # Compared before float(): a JSON integer may be too large for one. NaN fails too.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_THRESHOLD or not math.isfinite(value):
        raise _refuse(
            f"its threshold has to be a number within +-{MAX_THRESHOLD:.0f}", "out_of_scope"
        )
    return float(value)


def _refuse(why: str, key: str | None = None) -> AdapterRejectedError:
    if key is None:
        return AdapterRejectedError(f"{FILE} {why}", field="head")
    return AdapterRejectedError(f"{FILE}: {key}: {why}", field=f"head.{key}")
