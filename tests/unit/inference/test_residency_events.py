"""What is told to the store is told until it was counted, and once."""

from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.fetched_adapter import FetchCost, FinishedLoad
from services.inference.residency_events import ResidencyEvents


def load(digest):
    return FinishedLoad(
        digest=digest, is_warm_up=False, cost=FetchCost(), decode_s=0.0, prove_s=0.0
    )


def eviction(digest):
    return Eviction(digest, 0, was_resident=True, was_wasted=False)


def test_a_batch_stays_the_same_until_it_was_counted():
    events = ResidencyEvents()
    events.add([load("a")], [])
    first = events.take(2)
    assert (first.sequence, first.num_slot_waits) == (1, 2)
    events.add([load("b")], [eviction("a")])
    assert events.take(5) is first
    events.mark_counted()
    second = events.take(5)
    assert (second.sequence, second.num_slot_waits) == (2, 3)
    assert [each.digest for each in second.loads] == ["b"]
    assert [each.digest for each in second.evictions] == ["a"]
    events.mark_counted()
    assert events.take(5).loads == ()


def test_what_is_kept_while_the_store_is_away_is_bounded():
    events = ResidencyEvents()
    events.add([load(str(n)) for n in range(10_000)], [])
    loads = events.take(0).loads
    assert len(loads) < 10_000
    assert loads[-1].digest == "9999"
