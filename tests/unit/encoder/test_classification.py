"""From a pooled vector to labels, probabilities and the verdict of scope."""

import numpy as np
import pytest

from edgelora.adapter_format.head import ClassifierHead, ScopeRule
from edgelora.errors import InternalError
from services.inference.encoder.classification import classify, normalised

LABELS = ("pay", "ask", "none")


def make_head(rule=None, normalise=False, weight=None, bias=None):
    return ClassifierHead(
        labels=LABELS,
        pooling="mean",
        normalise=normalise,
        out_of_scope=rule,
        weight=np.eye(3, dtype=np.float32) if weight is None else weight,
        bias=np.zeros(3, np.float32) if bias is None else bias,
    )


def rule(label=None, score=None, threshold=None):
    return ScopeRule(label=label, score=score, threshold=threshold)


def vector(*logits):
    return np.array(logits, np.float32)


def test_labels_come_likeliest_first_with_probabilities_that_add_up():
    found = classify(make_head(), vector(1.0, 3.0, 2.0), 9)
    exact = np.exp([3.0, 2.0, 1.0]) / np.exp([1.0, 2.0, 3.0]).sum()
    assert [label for label, _ in found.labels] == ["ask", "none", "pay"]
    assert np.allclose([probability for _, probability in found.labels], exact, atol=1e-15)
    assert sum(probability for _, probability in found.labels) == pytest.approx(1.0, abs=1e-15)
    assert classify(make_head(), vector(1.0, 3.0, 2.0), 1).labels == found.labels[:1]
    assert not found.is_out_of_scope


def test_equal_labels_keep_their_order_and_huge_outputs_stay_numbers():
    assert [label for label, _ in classify(make_head(), vector(0, 0, 0), 3).labels] == [*LABELS]
    found = classify(make_head(), vector(3e38, -3e38, 0), 2)
    assert found.labels == (("pay", 1.0), ("none", 0.0))


def test_the_vector_is_scaled_and_the_bias_added_where_the_head_says_so():
    biased = make_head(normalise=True, bias=vector(0.0, 0.5, 0.0))
    found = classify(biased, vector(30.0, 40.0, 0.0), 3)
    logits = np.array([0.6, 1.3, 0.0])
    expected = np.exp(logits[1]) / np.exp(logits).sum()
    assert found.labels[0] == ("ask", pytest.approx(expected, abs=1e-6))


@pytest.mark.parametrize(
    ("scope", "logits", "is_out"),
    [
        (None, (0, 0, 9), False),
        (rule(label="none"), (0, 0, 9), True),
        (rule(label="none"), (0, 9, 8), False),
        (rule(score="max_probability", threshold=0.5), (0.1, 0, 0), True),
        (rule(score="max_probability", threshold=0.5), (3, 0, 0), False),
        # log(e^0 + e^0 + e^0) = 1.0986
        (rule(score="energy", threshold=1.09), (0, 0, 0), False),
        (rule(score="energy", threshold=1.11), (0, 0, 0), True),
        (rule(score="energy", threshold=200.0), (1000, 0, 0), False),
        (rule(label="none", score="max_probability", threshold=0.2), (0, 0, 0.1), True),
        (rule(label="none", score="max_probability", threshold=0.5), (0.1, 0, 0), True),
        (rule(label="none", score="max_probability", threshold=0.2), (0.1, 0, 0), False),
    ],
)
def test_any_condition_of_the_rule_puts_a_text_out_of_scope(scope, logits, is_out):
    assert classify(make_head(scope), vector(*logits), 1).is_out_of_scope is is_out


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_output_that_is_no_number_is_an_error(value):
    with pytest.raises(InternalError, match="not a number"):
        classify(make_head(bias=vector(value, 0, 0)), vector(0, 0, 0), 1)


def test_vectors_are_scaled_to_length_1_also_the_very_large_and_the_very_small():
    for scale in (1e-30, 1.0, 1e30):
        scaled = normalised(vector(3 * scale, 4 * scale))
        assert np.allclose(scaled, [0.6, 0.8], atol=1e-6)
    assert normalised(vector(0, 0)).tolist() == [0, 0]
