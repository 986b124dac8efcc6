"""head.json: strict, bounded, and with one canonical form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.adapter_format.head import MAX_HEAD_BYTES, HeadSettings, ScopeRule, parse_head
from edgelora.errors import AdapterRejectedError

RULE = {"label": "oos", "score": "max_probability", "threshold": 0.35}


def document(**changes):
    base = {"labels": ["pay", "oos"], "pooling": "mean", "normalise": True, "out_of_scope": RULE}
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def parse(**changes):
    return parse_head(json.dumps(document(**changes)).encode())


def test_whole_head_is_read():
    assert parse() == HeadSettings(
        labels=("pay", "oos"),
        pooling="mean",
        normalise=True,
        out_of_scope=ScopeRule(label="oos", score="max_probability", threshold=0.35),
    )


def test_short_head_has_no_rule_and_does_not_normalise():
    settings = parse(normalise=..., out_of_scope=...)
    assert (settings.normalise, settings.out_of_scope) == (False, None)
    assert parse(normalise=False, out_of_scope=None).canonical_bytes() == settings.canonical_bytes()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"labels": ...}, "head"),
        ({"pooling": ...}, "head"),
        ({"extra": 1}, "head"),
        ({"labels": ["one"]}, "head.labels"),
        ({"labels": "ab"}, "head.labels"),
        ({"labels": ["a", "a"]}, "head.labels"),
        ({"labels": ["a", 1]}, "head.labels"),
        ({"labels": ["a", ""]}, "head.labels"),
        ({"labels": ["a", " "]}, "head.labels"),
        ({"labels": ["a", "b\n"]}, "head.labels"),
        ({"labels": ["a", "\ud800"]}, "head.labels"),
        ({"labels": ["a", "\u202e"]}, "head.labels"),
        ({"labels": ["a", "b" * 201]}, "head.labels"),
        ({"labels": [str(number) for number in range(4097)]}, "head.labels"),
        ({"labels": [f"{number:04}{'€' * 190}" for number in range(1000)]}, "head"),
        ({"pooling": "max"}, "head.pooling"),
        ({"pooling": ["mean"]}, "head.pooling"),
        ({"normalise": 1}, "head.normalise"),
        ({"out_of_scope": False}, "head.out_of_scope"),
        ({"out_of_scope": {}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "label": "other"}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "label": ["oos"]}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "score": "margin"}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "score": None}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "threshold": None}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "threshold": "0.3"}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "threshold": True}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "threshold": 10**400}}, "head.out_of_scope"),
        ({"out_of_scope": {**RULE, "more": 1}}, "head.out_of_scope"),
    ],
)
def test_anything_else_is_refused_by_its_key(changes, field):
    with pytest.raises(AdapterRejectedError) as caught:
        parse(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"labels": ["a", "b"], "labels": ["a", "b"], "pooling": "cls"}',
        json.dumps(document()).replace("0.35", "NaN").encode(),
        json.dumps(document()).replace("0.35", "1e999").encode(),
        b" " * (MAX_HEAD_BYTES + 1),
        b"[" * 100_000,
    ],
)
def test_what_is_no_plain_json_object_is_refused(data):
    with pytest.raises(AdapterRejectedError) as caught:
        parse_head(data)
    assert caught.value.field.startswith("head")


_LABELS = st.lists(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20),
    min_size=2,
    max_size=9,
    unique=True,
)


@given(
    labels=_LABELS,
    pooling=st.sampled_from(["mean", "cls", "pooler"]),
    normalise=st.booleans(),
    threshold=st.none() | st.floats(-1e6, 1e6),
)
def test_canonical_form_says_the_same(labels, pooling, normalise, threshold):
    rule = ScopeRule(
        label=None if threshold is not None else labels[-1],
        score=None if threshold is None else "energy",
        threshold=threshold,
    )
    settings = HeadSettings(
        labels=tuple(labels), pooling=pooling, normalise=normalise, out_of_scope=rule
    )
    assert parse_head(settings.canonical_bytes()) == settings
