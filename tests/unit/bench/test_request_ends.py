"""Every request is counted once: answered, refused as declared, failed or lost."""

import pytest

from bench.request_ends import End, Ends, end_of
from tests.support.request_records import record, refused


@pytest.mark.parametrize(
    ("one", "end"),
    [
        (record(), End.DONE),
        (refused(), End.REFUSED),
        (refused(was_accepted=True, reason="RESOURCE_PRESSURE"), End.REFUSED),
        (refused(retry_after_s=None), End.ERROR),
        (refused(reason="MESSAGE_TOO_LARGE"), End.ERROR),
        (refused(token_times=[0.5]), End.ERROR),
        (record(finished=None, error="UNAVAILABLE", reason="WORKER_LOST"), End.ERROR),
        (record(finished=None, num_ends=0), End.LOST),
        (record(num_ends=2), End.LOST),
    ],
    ids=[
        "done",
        "refused",
        "refused while it waited",
        "no word of when to come back",
        "not because the node is full",
        "after its first token",
        "failed",
        "closed without an end",
        "ended twice",
    ],
)
def test_an_end_has_one_name(one, end):
    assert end_of(one) is end


def test_a_lost_request_and_one_that_ended_twice_are_counted_as_lost():
    lost = record(finished=None, num_ends=0)
    ends = Ends.of([record(), lost, record(num_ends=2), refused(), refused(rule="memory_critical")])
    assert ends.document() == {
        "sent": 5,
        "accepted": 3,
        "accepted_ended_once": 1,
        "done": 1,
        "refused": 2,
        "refused_by": {"QUEUE_FULL": 1, "memory_critical": 1},
        "errors": 0,
        "errors_by": {},
        "lost": 2,
    }


def test_errors_are_counted_by_reason():
    failed = record(finished=None, error="UNAVAILABLE", reason="WORKER_LOST")
    ends = Ends.of([failed, failed, record(finished=None, error="INTERNAL", reason="INTERNAL")])
    assert (ends.num_errors, ends.errors) == (3, {"INTERNAL": 1, "WORKER_LOST": 2})
