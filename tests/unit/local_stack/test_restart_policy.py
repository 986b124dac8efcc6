"""Back-off and giving up, as pure decisions."""

from hypothesis import given
from hypothesis import strategies as st

from edgelora.local_stack.restart_policy import CrashHistory, RestartPolicy

POLICY = RestartPolicy(first_delay_s=0.2, max_delay_s=1.0, max_crashes=4, window_s=60.0)


def test_delays_double_up_to_the_limit_and_then_it_is_given_up():
    history = CrashHistory(POLICY)
    assert [history.record(now) for now in range(5)] == [0.2, 0.4, 0.8, 1.0, None]


def test_old_crashes_are_forgotten():
    history = CrashHistory(POLICY)
    for now in range(4):
        history.record(now)
    assert history.record(100.0) == 0.2


@given(st.lists(st.floats(min_value=0.0, max_value=1000.0), max_size=50).map(sorted))
def test_no_window_ever_holds_more_restarts_than_allowed(times):
    history = CrashHistory(POLICY)
    restarts = [now for now in times if history.record(now) is not None]
    for start in restarts:
        within = [time for time in restarts if start <= time < start + POLICY.window_s]
        assert len(within) <= POLICY.max_crashes
