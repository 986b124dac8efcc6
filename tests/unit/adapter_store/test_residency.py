"""What the workers last said, and for how long it counts."""

import pytest

from edgelora.errors import PermissionDeniedError
from services.adapter_store.residency import (
    EXPIRY_S,
    AdapterPlace,
    Residency,
    SlotReport,
    WorkerReport,
)


def report(worker="w", *digests, at=0.0, incarnation=1, loading=(), refused=()) -> WorkerReport:
    slots = {
        digest: SlotReport(
            digest=digest, num_references=0, last_used_s=at, is_loading=digest in loading
        )
        for digest in (*digests, *loading)
    }
    return WorkerReport(
        worker=worker,
        incarnation=incarnation,
        reported_at_s=at,
        slots=slots,
        refused=frozenset(refused),
    )


def test_places_take_the_best_of_all_workers():
    residency = Residency()
    residency.report(report("w1", "a", loading=["b"], refused=["a", "b", "c"]))
    residency.report(report("w2", loading=["a"]))
    expected = {"a": "RESIDENT", "b": "LOADING", "c": "FAILED", "d": "REGISTERED"}
    assert {each: residency.place(each, 1.0).name for each in expected} == expected


def test_loading_does_not_count_as_resident():
    residency = Residency()
    residency.report(report("w1", "a", "b"))
    residency.report(report("w2", "a", loading=["b"]))
    residency.report(report("w3", "x"))
    assert residency.counts(["a", "b"], 0.0) == {"w1": 2, "w2": 1}


def test_silent_worker_holds_nothing():
    residency = Residency()
    residency.report(report("w", "a", at=100.0))
    assert residency.place("a", 100.0 + EXPIRY_S) is AdapterPlace.RESIDENT
    assert residency.place("a", 100.1 + EXPIRY_S) is AdapterPlace.REGISTERED
    assert residency.counts(["a"], 101.0 + EXPIRY_S) == {}
    residency.report(report("w", "a", at=200.0))
    assert residency.place("a", 200.0) is AdapterPlace.RESIDENT


def test_stale_process_is_fenced_even_when_the_newer_one_is_silent_F07():
    residency = Residency()
    residency.report(report("w", "a", incarnation=2))
    with pytest.raises(PermissionDeniedError):
        residency.report(report("w", "b", incarnation=1, at=1000.0))
    assert residency.place("b", 1000.0) is AdapterPlace.REGISTERED


def test_only_a_change_of_what_lies_where_is_a_change():
    residency = Residency()
    assert residency.report(report("w", "a"))
    assert not residency.report(report("w", "a", at=5.0))
    assert residency.report(report("w", "a", at=5.0, incarnation=2))
    assert residency.report(report("w", at=5.0, incarnation=2))
