"""The checker of concurrent histories accepts what is right, and notices what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import alias_model
from tests.support.alias_model import (
    Point,
    Register,
    RemoveAdapter,
    RemoveAlias,
    Resolve,
    Shelf,
)
from tests.support.linearizability import Operation, linearization

A, B = "a", "b"
SET_A, SET_B = Register(A, True), Register(B, True)
READ = Resolve()


def history(*entries) -> list[Operation]:
    """Of (call, answer, called, returned)."""
    return [Operation(*entry) for entry in entries]


def explained(*entries):
    return linearization(history(*entries), Shelf(), alias_model.apply)


def test_calls_after_each_other_are_explained_in_their_order():
    entries = (
        (READ, ("unknown",), 1, 2),
        (SET_A, ("registered", True, 1), 3, 4),
        (READ, ("resolved", A), 5, 6),
        (RemoveAlias(), ("removed",), 7, 8),
        (Register(B, False), ("registered", True, 2), 9, 10),
        (RemoveAdapter(B), ("removed", True), 11, 12),
        (READ, ("unknown",), 13, 14),
    )
    assert explained(*entries) == history(*entries)


def test_calls_at_once_may_take_effect_in_either_order():
    for seen in (A, B):
        assert explained(
            (SET_A, ("registered", True, 1 if seen == B else 2), 1, 4),
            (SET_B, ("registered", True, 2 if seen == B else 1), 2, 3),
            (READ, ("resolved", seen), 5, 6),
        )


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(
            [(SET_A, ("registered", True, 1), 1, 2), (READ, ("unknown",), 3, 4)], id="stale"
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (SET_B, ("registered", True, 2), 3, 8),
                (READ, ("resolved", B), 4, 5),
                (READ, ("resolved", A), 6, 7),
            ],
            id="new, then old",
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (SET_B, ("registered", True, 2), 3, 4),
                (Point(A, 2), ("pointed", 3), 5, 8),
                (Point(A, 2), ("pointed", 3), 6, 7),
                (READ, ("resolved", B), 9, 10),
            ],
            id="lost update",
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (Register(B, False), ("registered", True, 2), 3, 4),
            ],
            id="replaced unasked",
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (RemoveAlias(), ("removed",), 3, 4),
                (SET_A, ("registered", False, 1), 5, 6),
            ],
            id="a generation used twice",
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (RemoveAdapter(A), ("removed", True), 3, 6),
                (RemoveAdapter(A), ("removed", True), 4, 5),
            ],
            id="removed twice",
        ),
        pytest.param(
            [
                (SET_A, ("registered", True, 1), 1, 2),
                (SET_B, ("registered", True, 2), 3, 6),
                (READ, ("unknown",), 4, 5),
            ],
            id="gone between two",
        ),
        pytest.param([(READ, ("resolved", A), 1, 2)], id="out of nothing"),
    ],
)
def test_what_no_order_explains_is_noticed(entries):
    assert explained(*entries) is None


def test_call_without_an_answer_may_have_happened_or_not():
    for answer in (("unknown",), ("resolved", A)):
        assert explained((SET_A, None, 1, None), (READ, answer, 2, 3)) is not None
    assert explained((READ, ("resolved", A), 1, 2), (SET_A, None, 3, None)) is None
    assert (
        explained((SET_A, None, 1, None), (READ, ("resolved", A), 2, 3), (READ, ("unknown",), 4, 5))
        is None
    )


calls = st.one_of(
    st.builds(Register, st.sampled_from("abc"), st.booleans()),
    st.builds(Point, st.sampled_from("abc"), st.none() | st.integers(0, 3)),
    st.just(RemoveAlias()),
    st.builds(RemoveAdapter, st.sampled_from("abc")),
    st.just(READ),
)


@given(st.lists(st.tuples(calls, st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_whatever_happened_in_some_order_is_explained(chosen):
    """Each call takes effect at its index; it was made and answered somewhat around that."""
    shelf = Shelf()
    made = []
    for index, (call, before, after) in enumerate(chosen):
        shelf, answer = alias_model.apply(shelf, call)
        made.append((call, answer, index - before, index + after))
    moments = sorted(
        [(start, 0, i) for i, (_, _, start, _) in enumerate(made)]
        + [(end, 1, i) for i, (_, _, _, end) in enumerate(made)]
    )
    places = {(i, kind): place for place, (_, kind, i) in enumerate(moments)}
    operations = [
        Operation(call, answer, places[i, 0], places[i, 1])
        for i, (call, answer, _, _) in enumerate(made)
    ]
    order = linearization(operations, Shelf(), alias_model.apply)
    assert order is not None
    shelf = Shelf()
    for operation in order:
        shelf, answer = alias_model.apply(shelf, operation.call)
        assert answer == operation.answer
    assert len(order) == len(operations)
