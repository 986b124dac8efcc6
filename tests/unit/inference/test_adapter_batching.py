"""The order in which waiting sequences get slots."""

from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.adapter_batching import batch_by_adapter, wanted_digests
from services.inference.engine.sequence import AdapterUse, Priority, Sequence

PATIENCE_S = 2.0


def waiting(sequence_id, adapters="", priority=Priority.INTERACTIVE, since_s=None):
    sequence = Sequence(
        sequence_id=sequence_id,
        token_ids=[1],
        adapters=tuple(AdapterUse(digest, 1.0) for digest in adapters),
        priority=priority,
    )
    sequence.overtaken_since_s = since_s
    return sequence


def order(sequences, resident, now_s=0.0):
    return [
        each.sequence_id
        for each in batch_by_adapter(
            sequences,
            lambda sequence: set(sequence.digests) <= set(resident),
            now_s=now_s,
            patience_s=PATIENCE_S,
        )
    ]


def test_those_that_need_no_load_go_first_until_patience_is_over_Q03():
    queue = [waiting(0, "b", since_s=0.0), waiting(1, "a"), waiting(2), waiting(3, "ab")]
    assert order(queue, "a", now_s=1.9) == [1, 2, 0, 3]
    assert order(queue, "a", now_s=2.0) == [0, 1, 2, 3]


def test_a_better_class_is_never_overtaken():
    queue = [waiting(5, "b"), waiting(1, "a", Priority.BATCH)]
    assert order(queue, "a") == [5, 1]


def test_what_is_wanted_is_what_anyone_names():
    assert wanted_digests([waiting(0, "ab")], [waiting(1, "bc"), waiting(2)]) == set("abc")


SEQUENCES = st.lists(
    st.tuples(
        st.text("abc", max_size=2),
        st.sampled_from(Priority),
        st.none() | st.floats(0, 10),
    ),
    max_size=12,
)


@given(SEQUENCES, st.sets(st.sampled_from("abc")), st.floats(0, 10))
def test_nobody_is_lost_and_nobody_overtakes_without_a_reason(specs, resident, now_s):
    queue = sorted(
        (
            waiting(index, "".join(sorted(set(names))), priority, since_s)
            for index, (names, priority, since_s) in enumerate(specs)
        ),
        key=lambda sequence: sequence.order,
    )
    by_id = {sequence.sequence_id: sequence for sequence in queue}
    result = order(queue, resident, now_s)
    assert sorted(result) == sorted(by_id)
    for place, later in enumerate(result):
        for earlier in result[:place]:
            first, second = by_id[earlier], by_id[later]
            if second.order < first.order:
                # `first` came later and goes before: the same class, and it needs no load, or it
                # waits too long; and the one it overtakes does need one and does not.
                assert first.priority == second.priority
                assert not set(second.digests) <= resident
                since_s = second.overtaken_since_s
                assert since_s is None or now_s - since_s < PATIENCE_S
