"""When a text is out of scope, and how often a classifier is right with that rule. Pure.

A rule has up to two conditions, as head.json says: the label of texts that belong to none is the
likeliest, or the classifier is not sure enough. How sure it has to be is read off validation
texts: as sure as can be asked for while the accuracy in scope falls by no more than allowed.

Labels are numbered from 0; the number after the last one stands for none, and is the classifier's
last output where training had texts without a label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.head import ScopeRule, ScopeScore

Logits = NDArray[np.floating[Any]]
"""Shape [texts, outputs]."""
Numbers = NDArray[np.intp]
"""A label's number, or that of none, for each text."""
TradeOff = tuple[float, float]
"""Accuracy in scope, recall out of scope."""
_POINTS = 101


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often a classifier is right."""

    in_scope: float | None
    """Share of the texts with a label that get it; one that is called out of scope is wrong."""
    out_of_scope_recall: float | None
    """Share of the texts without a label that are called out of scope."""
    texts: int
    """In scope."""
    out_of_scope_texts: int


def scope_score(logits: Logits, score: ScopeScore) -> NDArray[np.float64]:
    """How sure a classifier is of each text, shape [texts]."""
    exact = logits.astype(np.float64)
    peak = exact.max(axis=1)
    rest: NDArray[np.float64] = np.log(np.exp(exact - peak[:, None]).sum(axis=1))
    if score == "max_probability":
        return np.asarray(np.exp(-rest))
    return np.asarray(peak + rest)


def judge(logits: Logits, num_labels: int, rule: ScopeRule | None) -> Numbers:
    """What a classifier answers for each text."""
    answers: Numbers = logits.argmax(axis=1)
    if rule is not None and rule.score is not None and rule.threshold is not None:
        answers[scope_score(logits, rule.score) < rule.threshold] = num_labels
    return answers


def accuracy(answers: Numbers, truth: Numbers, num_labels: int) -> Accuracy:
    """Compares what was answered with what is true."""
    inside = truth < num_labels
    right = answers == truth
    return Accuracy(
        in_scope=float(right[inside].mean()) if inside.any() else None,
        out_of_scope_recall=None if inside.all() else float(right[~inside].mean()),
        texts=int(inside.sum()),
        out_of_scope_texts=int((~inside).sum()),
    )


def tune_rule(
    logits: Logits, truth: Numbers, num_labels: int, *, label: str | None, max_loss: float
) -> ScopeRule | None:
    """Chooses score and threshold on validation texts.

    `label`: the name of the last output, where it stands for none. `max_loss`: share of the texts
    in scope that the threshold may lose. Each score gets the highest threshold that keeps to it;
    the one that finds more of the texts out of scope is taken, the first where there are none to
    tell. 0 leaves the threshold out.
    """
    plain = None if label is None else ScopeRule(label=label, score=None, threshold=None)
    inside = truth < num_labels
    right = inside & (judge(logits, num_labels, plain) == truth)
    spare = int(max_loss * inside.sum())
    if not 0 < spare < right.sum():
        return plain
    # A text that is wrong anyway costs nothing: only right ones are counted.
    rules = [
        ScopeRule(
            label=label,
            score=score,
            threshold=float(np.sort(scope_score(logits, score)[right])[spare]),
        )
        for score in get_args(ScopeScore)
    ]
    if inside.all():
        return rules[0]
    found = [int((judge(logits, num_labels, rule)[~inside] == num_labels).sum()) for rule in rules]
    return rules[int(np.argmax(found))]


def trade_off(logits: Logits, truth: Numbers, num_labels: int, rule: ScopeRule) -> list[TradeOff]:
    """What other thresholds on the rule's score would give, from none to one that calls all out.

    Empty where the rule has no score, or there are no texts out of scope.
    """
    if rule.score is None or not (truth == num_labels).any():
        return []
    scores = scope_score(logits, rule.score)
    thresholds = np.quantile(scores, np.linspace(0, 1, _POINTS))
    found = []
    for threshold in thresholds:
        other = replace(rule, threshold=float(threshold))
        measured = accuracy(judge(logits, num_labels, other), truth, num_labels)
        if measured.in_scope is not None and measured.out_of_scope_recall is not None:
            found.append((measured.in_scope, measured.out_of_scope_recall))
    return found
