"""The slot table: references, eviction, single flight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.adapter_slots import AdapterSlots


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


def test_a_loading_slot_is_not_evicted_even_when_nobody_waits_any_more():
    slots = AdapterSlots(1)
    slots.acquire(["a"], 0.0)
    slots.release(["a"], 0.0)
    assert slots.acquire(["b"], 1.0) is None


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
