import pytest

from edgelora.v1.generation_pb2 import PriorityClass
from services.gateway.dashboard.latency_windows import LatencyWindow, LatencyWindows
from tests.support.ended_generations import ended

INTERACTIVE = PriorityClass.PRIORITY_CLASS_INTERACTIVE
BATCH = PriorityClass.PRIORITY_CLASS_BATCH


def test_percentiles_are_values_that_were_measured():
    window = LatencyWindow()
    for value in range(1, 101):
        window.add(0.0, value / 100)
    found = window.percentiles(0.0)
    assert (found.p50, found.p95, found.p99) == (0.50, 0.95, 0.99)
    assert found.num_values == 100


def test_one_value_is_every_percentile():
    window = LatencyWindow()
    window.add(0.0, 0.25)
    found = window.percentiles(0.0)
    assert (found.p50, found.p95, found.p99) == (0.25, 0.25, 0.25)


def test_old_values_are_forgotten_and_the_newest_kept():
    window = LatencyWindow(window_s=10.0, max_values=3)
    for at_s, value in ((0.0, 9.0), (5.0, 8.0), (6.0, 7.0), (7.0, 6.0)):
        window.add(at_s, value)
    assert window.percentiles(7.0).p99 == 8.0  # 9.0 made room
    assert window.percentiles(15.5).p99 == 7.0  # 8.0 is too old
    assert window.percentiles(30.0) is None


def test_each_class_has_its_own():
    windows = LatencyWindows()
    windows.add(0.0, ended())
    windows.add(0.0, ended(priority=BATCH, time_to_first_token_s=4.0, total_s=24.0))
    found = windows.by_class(0.0)
    assert found[INTERACTIVE].time_to_first_token.p50 == 0.5
    assert found[INTERACTIVE].time_per_output_token.p50 == pytest.approx(0.05)
    assert found[BATCH].time_to_first_token.p50 == 4.0
    assert found[BATCH].time_per_output_token.p50 == pytest.approx(2.0)


def test_what_was_not_measured_is_unknown_and_not_zero():
    windows = LatencyWindows()
    windows.add(0.0, ended(num_output_tokens=1))
    windows.add(0.0, ended(priority=BATCH, time_to_first_token_s=None, num_output_tokens=0))
    found = windows.by_class(0.0)
    assert found[INTERACTIVE].time_per_output_token is None
    assert BATCH not in found
