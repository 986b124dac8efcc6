"""The slot table: references, eviction, single flight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.adapter_slots import AdapterSlots, SlotBudgetError, SlotState


def load(slots, digest, now_s=0.0):
    """Brings a digest in and gives its reference back."""
    acquisition = slots.acquire([digest], now_s)
    slots.mark_resident(digest, 1, 0.0)
    slots.release([digest], now_s)
    return acquisition.slots[0]


def test_a_resident_adapter_is_not_loaded_again():
    slots = AdapterSlots(2)
    index = load(slots, "a")
    again = slots.acquire(["a"], 1.0)
    assert again.slots == (index,)
    assert again.claims == ()


def test_two_requests_for_a_loading_adapter_share_one_load():
    slots = AdapterSlots(2)
    assert len(slots.acquire(["a"], 0.0).claims) == 1
    assert slots.acquire(["a"], 0.0).claims == ()
    assert slots.num_references == 2


def test_the_least_recently_used_goes_first():
    slots = AdapterSlots(2)
    load(slots, "a", 1.0)
    load(slots, "b", 2.0)
    slots.acquire(["a"], 3.0)
    slots.release(["a"], 3.0)
    (eviction,) = slots.acquire(["c"], 4.0).evictions
    assert eviction.digest == "b"


def test_an_adapter_in_use_is_never_evicted():
    slots = AdapterSlots(1)
    load(slots, "a")
    slots.acquire(["a"], 0.0)
    assert slots.acquire(["b"], 1.0) is None
    assert slots.num_references == 1


def test_a_slot_that_is_being_written_is_not_evicted_even_when_nobody_waits_any_more():
    slots = AdapterSlots(1)
    slots.acquire(["a"], 0.0)
    slots.begin_writing("a", "form")
    slots.release(["a"], 0.0)
    assert slots.acquire(["b"], 1.0) is None


def test_a_slot_whose_weights_have_not_come_goes_when_nobody_waits_for_them_any_more():
    slots = AdapterSlots(1)
    slots.acquire(["a"], 0.0)
    assert slots.acquire(["b"], 1.0) is None
    slots.release(["a"], 1.0)
    (eviction,) = slots.acquire(["b"], 2.0).evictions
    assert (eviction.digest, eviction.was_resident) == ("a", False)


def test_all_or_nothing_for_several_adapters():
    slots = AdapterSlots(2)
    slots.acquire(["a"], 0.0)
    assert slots.acquire(["b", "c"], 0.0) is None
    assert slots.find("b") is None
    assert slots.num_references == 1


def test_a_request_does_not_evict_its_own_adapter():
    slots = AdapterSlots(2)
    load(slots, "a")
    slots.acquire(["x"], 0.0)
    assert slots.acquire(["a", "b"], 0.0) is None
    assert slots.is_resident("a")


def test_releasing_twice_is_an_error():
    slots = AdapterSlots(1)
    load(slots, "a")
    with pytest.raises(ValueError, match="released twice"):
        slots.release(["a"], 0.0)


def test_only_unreferenced_slots_are_discarded_Q06():
    slots = AdapterSlots(1)
    index = load(slots, "a")
    slots.acquire(["a"], 0.0)
    assert slots.discard("a") is None
    slots.release(["a"], 0.0)
    assert slots.discard("a").slot == index
    assert slots.find("a") is None


ACTIONS = st.tuples(
    st.sampled_from(["acquire", "release", "loaded", "discard"]),
    st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3),
)


@given(st.lists(ACTIONS, max_size=80))
def test_references_are_exact_and_digests_have_one_slot_each(actions):
    slots = AdapterSlots(3)
    held: list[list[str]] = []
    for now_s, (action, names) in enumerate(actions):
        digests = sorted(names)
        referenced = {digest for each in held for digest in each}
        if action == "acquire":
            before = {digest: slots.find(digest) for digest in referenced}
            if slots.acquire(digests, now_s) is not None:
                held.append(digests)
            assert all(slots.find(digest) is slot for digest, slot in before.items())
        elif action == "release" and held:
            slots.release(held.pop(0), now_s)
        elif action == "loaded":
            for digest in digests:
                if slots.find(digest):
                    slots.mark_resident(digest, 1, 0.0)
        elif action == "discard":
            for digest in digests:
                assert (slots.discard(digest) is None) or digest not in referenced
        assert slots.num_references == sum(map(len, held))
        filled = [slot.digest for slot in slots.slots if slot.digest]
        assert len(filled) == len(set(filled))


# Pins, bytes, minimum residency, loads ahead of use.


def test_pinned_and_then_wanted_adapters_go_last():
    slots = AdapterSlots(3)
    for now_s, digest in enumerate("abc"):
        load(slots, digest, now_s)
    slots.pinned = frozenset("a")
    gone = []
    for digest in "xyz":
        (eviction,) = slots.acquire([digest], 9.0, wanted={"b"}).evictions
        gone.append(eviction.digest)
    assert gone == ["c", "b", "a"]


def test_the_budget_counts_what_loads_at_its_most_and_what_is_there_at_its_size():
    slots = AdapterSlots(4, slot_bytes=10, budget_bytes=25)
    assert slots.max_adapters == 2
    slots.acquire(["a"], 0.0)
    slots.acquire(["b"], 0.0)
    assert slots.acquire(["c"], 0.0) is None
    slots.mark_resident("a", 4, 0.0)
    assert slots.memory_bytes == 14
    slots.acquire(["c"], 0.0)
    assert slots.memory_bytes == 24


def test_as_many_are_evicted_as_the_bytes_need():
    slots = AdapterSlots(4, slot_bytes=10, budget_bytes=20)
    for now_s, digest in enumerate("abc"):
        slots.acquire([digest], now_s)
        slots.mark_resident(digest, 5, now_s)
        slots.release([digest], now_s)
    acquisition = slots.acquire(["x"], 9.0)
    assert [each.digest for each in acquisition.evictions] == ["a"]
    slots.mark_resident("x", 10, 9.0)
    acquisition = slots.acquire(["y"], 9.0)
    assert [each.digest for each in acquisition.evictions] == ["b", "c"]
    assert slots.memory_bytes == 20


def test_a_budget_for_not_one_adapter_is_refused():
    with pytest.raises(SlotBudgetError, match="at least 10 bytes"):
        AdapterSlots(4, slot_bytes=10, budget_bytes=9)


def warm(slots, digest, now_s=0.0, evict=None):
    acquisition = slots.claim_ahead(digest, evict, now_s)
    if acquisition is not None:
        slots.mark_resident(digest, 1, now_s)
    return acquisition


def test_one_that_served_nobody_yet_stays_while_another_will_come_free():
    slots = AdapterSlots(2, min_residency_s=0.5)
    warm(slots, "new", 0.0)
    load(slots, "busy", 0.0)
    slots.acquire(["busy"], 0.0)
    assert slots.acquire(["x"], 0.4) is None
    assert slots.acquire(["x"], 0.5).evictions[0].digest == "new"


def test_one_that_served_nobody_yet_goes_where_nothing_else_would_come_free():
    slots = AdapterSlots(1, min_residency_s=0.5)
    warm(slots, "new", 0.0)
    eviction = slots.acquire(["x"], 0.1).evictions[0]
    assert (eviction.digest, eviction.was_resident, eviction.was_wasted) == ("new", True, True)


def test_a_load_ahead_takes_an_empty_slot_or_the_named_idle_one_and_no_other():
    slots = AdapterSlots(2)
    assert warm(slots, "w").evictions == ()
    load(slots, "a", 1.0)
    assert warm(slots, "v", 2.0) is None
    assert warm(slots, "v", 2.0, evict="gone") is None
    slots.acquire(["a"], 2.0)
    assert warm(slots, "v", 2.0, evict="a") is None
    slots.release(["a"], 2.0)
    slots.pinned = frozenset("a")
    assert warm(slots, "v", 2.0, evict="a") is None
    slots.pinned = frozenset()
    assert warm(slots, "v", 3.0, evict="a").evictions[0].digest == "a"
    assert warm(slots, "v", 3.0) is None


def test_a_load_ahead_is_wasted_unless_somebody_used_it():
    slots = AdapterSlots(1)
    warm(slots, "w")
    assert slots.acquire(["w"], 1.0).claims == ()
    slots.release(["w"], 1.0)
    assert slots.acquire(["x"], 2.0).evictions[0].was_wasted is False


@given(
    st.integers(1, 4),
    st.integers(10, 45),
    st.lists(
        st.tuples(
            st.sampled_from(["acquire", "release", "writing", "loaded", "ahead", "pin"]),
            st.sets(st.sampled_from("abcdef"), min_size=1, max_size=2),
            st.integers(1, 10),
        ),
        max_size=60,
    ),
)
def test_the_budget_is_never_exceeded_and_what_is_used_never_goes(num_slots, budget, actions):
    slots = AdapterSlots(num_slots, slot_bytes=10, budget_bytes=budget, min_residency_s=3.0)
    held: list[list[str]] = []
    for now_s, (action, names, size) in enumerate(actions):
        digests = sorted(names)
        loading = [slot for slot in slots.slots if slot.state is SlotState.LOADING]
        being_written = {slot.digest for slot in loading if slot.is_written}
        if action == "acquire":
            acquisition = slots.acquire(digests, now_s, wanted=set("ab"))
            if acquisition is not None:
                held.append(digests)
                assert being_written.isdisjoint(each.digest for each in acquisition.evictions)
            elif len(digests) <= slots.max_adapters and not held:
                # Only what loads, or another new one's sake, can be in the way.
                assert any(slot.state is SlotState.LOADING for slot in slots.slots)
        elif action == "release" and held:
            slots.release(held.pop(0), now_s)
        elif action == "writing":
            for slot in loading:
                slots.begin_writing(slot.digest, "form")
        elif action == "loaded":
            for slot in loading:
                slots.mark_resident(slot.digest, size, now_s)
        elif action == "ahead":
            slots.claim_ahead(digests[0], digests[-1], now_s)
        elif action == "pin":
            slots.pinned = frozenset(digests)
        assert slots.memory_bytes <= max(budget, 10)
        assert all(slots.find(digest) is not None for each in held for digest in each)
