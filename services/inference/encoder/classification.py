"""From a text's pooled vector to what is answered. Pure; the same bits in any company."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.head import ClassifierHead, ScopeRule
from edgelora.errors import InternalError


@dataclass(frozen=True, slots=True)
class Classified:
    """What a classifier says of one text."""

    labels: tuple[tuple[str, float], ...]
    """Labels with their probabilities, the likeliest first."""
    is_out_of_scope: bool


def normalised(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """A vector scaled to length 1; one of length 0 stays what it is."""
    length = float(np.sqrt(np.sum(np.square(vector, dtype=np.float64))))
    return vector if length == 0.0 else (vector / length).astype(np.float32)


def head_logits(head: ClassifierHead, vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """The classifier's outputs for one pooled vector, shape [labels].

    Raises InternalError when one is not a finite number.
    """
    scaled = normalised(vector) if head.normalise else vector
    # One text a product: a product of many has other last bits.
    with np.errstate(over="ignore", invalid="ignore"):
        logits = (head.weight @ scaled + head.bias).astype(np.float64)
    if not np.isfinite(logits).all():
        raise InternalError("the model's output was not a number")
    return logits


def classify(head: ClassifierHead, vector: NDArray[np.float32], top: int) -> Classified:
    """Judges one pooled vector, shape [hidden_size]; all labels where `top` is more.

    Raises InternalError as `head_logits` does.
    """
    logits = head_logits(head, vector)
    shifted = np.exp(logits - logits.max())
    probabilities = shifted / shifted.sum()
    best = np.argsort(-logits, kind="stable")[:top]
    rule = head.out_of_scope
    return Classified(
        tuple((head.labels[index], float(probabilities[index])) for index in best),
        rule is not None and _is_out_of_scope(rule, head.labels[best[0]], logits, probabilities),
    )


def _is_out_of_scope(
    rule: ScopeRule,
    likeliest: str,
    logits: NDArray[np.float64],
    probabilities: NDArray[np.float64],
) -> bool:
    if rule.label is not None and likeliest == rule.label:
        return True
    if rule.score is None or rule.threshold is None:
        return False
    if rule.score == "max_probability":
        score = float(probabilities.max())
    else:
        score = float(logits.max() + np.log(np.exp(logits - logits.max()).sum()))
    return score < rule.threshold
