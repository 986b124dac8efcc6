import pytest

from services.adapter_store.remotes.failures import FailureKind, RemoteFailure
from services.adapter_store.remotes.try_book import RetryPolicy, TryBook

GONE = RemoteFailure(FailureKind.UNREACHABLE, "gone")
POLICY = RetryPolicy()


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_F15_delays_double_with_jitter_and_never_fall_below_5_s(jitter):
    delays = [POLICY.delay_s(number, GONE, jitter) for number in range(1, 100)]
    assert delays[:4] == [pytest.approx(step * (1 + jitter / 4)) for step in (5, 10, 20, 40)]
    assert min(delays) >= 5
    assert max(delays) <= 300 * 1.25


@pytest.mark.parametrize(
    ("retry_after_s", "delay_s"), [(None, 5), (1, 5), (120, 120), (10**9, 3600)]
)
def test_retry_after_is_honoured_within_reason(retry_after_s, delay_s):
    busy = RemoteFailure(FailureKind.BUSY, "busy", retry_after_s=retry_after_s)
    assert POLICY.delay_s(1, busy, 0.0) == delay_s


@pytest.mark.parametrize("kind", [FailureKind.ABSENT, FailureKind.DENIED, FailureKind.UNUSABLE])
def test_answers_that_will_not_change_soon_stand_for_30_s(kind):
    failure = RemoteFailure(kind, "no")
    assert [POLICY.delay_s(number, failure, 0.9) for number in (1, 5)] == [30, 30]


def test_a_failure_stands_until_its_delay_is_over_and_success_forgets_it():
    book = TryBook(POLICY, lambda: 0.0)
    assert book.standing("a", 0.0) is None
    assert book.note("a", GONE, 100.0) == 5.0
    assert book.standing("a", 104.0) == (GONE, 1.0)
    assert book.standing("b", 104.0) is None
    assert book.standing("a", 105.0) is None
    assert book.note("a", GONE, 105.0) == 10.0
    book.clear("a")
    assert book.standing("a", 105.0) is None
    assert book.note("a", GONE, 105.0) == 5.0


def test_the_book_does_not_grow_without_end():
    book = TryBook(POLICY, lambda: 0.0)
    for number in range(5000):
        book.note(number, GONE, 0.0)
    assert book.standing(0, 1.0) is None
    assert book.standing(4999, 1.0) is not None
