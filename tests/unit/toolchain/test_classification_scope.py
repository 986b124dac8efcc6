"""The out-of-scope rule is read off validation texts, and costs no more than allowed."""

from __future__ import annotations

import numpy as np
import pytest

from edgelora.adapter_format.head import ClassifierHead, ScopeRule
from edgelora.toolchain.classification.scope import accuracy, judge, scope_score, tune_rule
from services.inference.encoder.classification import classify

LABELS = 4


def texts(sure, number, seed=0):
    """Logits of texts that are so sure of a label, and what they are."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((len(sure), LABELS + 1)) * 0.01
    logits[np.arange(len(sure)), number] += sure
    return logits.astype(np.float32)


@pytest.fixture
def validation():
    """100 texts in scope, 5 of them answered wrong and unsure, and 20 that belong to no label."""
    numbers = np.arange(100) % LABELS
    sure = np.linspace(3, 9, 100)
    sure[:5] = 0.5
    inside = texts(sure, np.where(np.arange(100) < 5, (numbers + 1) % LABELS, numbers))
    outside = texts(np.linspace(0.5, 6, 20), np.arange(20) % LABELS, seed=1)
    truth = np.concatenate([numbers, np.full(20, LABELS)])
    return np.concatenate([inside, outside]), truth


@pytest.mark.parametrize("max_loss", [0.01, 0.03, 0.2])
def test_the_rule_loses_no_more_than_allowed_and_as_much_as_that(validation, max_loss):
    logits, truth = validation
    rule = tune_rule(logits, truth, LABELS, label=None, max_loss=max_loss)
    plain = accuracy(judge(logits, LABELS, None), truth, LABELS)
    ruled = accuracy(judge(logits, LABELS, rule), truth, LABELS)
    assert (plain.in_scope, plain.out_of_scope_recall) == (0.95, 0.0)
    # Texts that were wrong before cost nothing.
    assert ruled.in_scope == pytest.approx(0.95 - max_loss)
    assert ruled.out_of_scope_recall > 0.3
    stricter = ScopeRule(label=None, score=rule.score, threshold=np.nextafter(rule.threshold, 99))
    assert accuracy(judge(logits, LABELS, stricter), truth, LABELS).in_scope < ruled.in_scope


def test_without_leave_to_lose_anything_only_the_label_counts(validation):
    logits, truth = validation
    assert tune_rule(logits, truth, LABELS, label=None, max_loss=0) is None
    named = tune_rule(logits, truth, LABELS, label="none", max_loss=0)
    assert named == ScopeRule(label="none", score=None, threshold=None)


def test_without_texts_out_of_scope_the_first_score_is_taken(validation):
    logits, truth = validation
    rule = tune_rule(logits[:100], truth[:100], LABELS, label=None, max_loss=0.02)
    assert rule.score == "max_probability"
    assert rule.threshold > 0


@pytest.mark.parametrize("score", ["max_probability", "energy"])
def test_it_judges_as_the_encoder_worker_does(score):
    rng = np.random.default_rng(3)
    logits = (rng.standard_normal((50, LABELS + 1)) * 3).astype(np.float32)
    threshold = float(np.median(scope_score(logits, score)))
    rule = ScopeRule(label="none", score=score, threshold=threshold)
    answers = judge(logits, LABELS, rule)
    labels = ("a", "b", "c", "d", "none")
    weight = np.eye(LABELS + 1, dtype=np.float32)
    head = ClassifierHead(
        labels=labels,
        pooling="mean",
        normalise=False,
        out_of_scope=rule,
        weight=weight,
        bias=np.zeros(LABELS + 1, np.float32),
    )
    served = [classify(head, row, top=1) for row in logits]
    assert [one.is_out_of_scope for one in served] == (answers == LABELS).tolist()
    kept = answers < LABELS
    assert 0 < kept.sum() < 50
    expected = [labels[number] for number in answers[kept]]
    assert [one.labels[0][0] for one, keep in zip(served, kept, strict=True) if keep] == expected
