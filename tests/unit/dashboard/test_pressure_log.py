from google.protobuf.duration_pb2 import Duration

from edgelora.v1.monitor_service_pb2 import DevicePressure, DimensionPressure, PressureLevel
from services.gateway.dashboard.pressure_log import PressureLog, dimension_pressures

UNKNOWN = PressureLevel.PRESSURE_LEVEL_UNKNOWN
NORMAL = PressureLevel.PRESSURE_LEVEL_NORMAL
ELEVATED = PressureLevel.PRESSURE_LEVEL_ELEVATED


def pressure(temperature, *, held_s=0, why="because"):
    state = DimensionPressure(level=temperature, explanation=why, held=Duration(seconds=held_s))
    calm = DimensionPressure(level=NORMAL, held=Duration(seconds=held_s))
    return DevicePressure(temperature=state, memory=calm, battery=calm)


def changes(log):
    return [
        (change.at_unix_s, change.level, change.explanation)
        for change in log.newest_first()
        if change.dimension == "temperature"
    ]


def test_changes_are_kept_with_their_reason_and_time():
    log = PressureLog()
    log.add(100.0, pressure(NORMAL, held_s=20))
    log.add(101.0, pressure(NORMAL, held_s=21))
    log.add(110.0, pressure(ELEVATED, held_s=2, why="47 degrees"))
    assert changes(log) == [(108.0, ELEVATED, "47 degrees"), (80.0, NORMAL, "because")]


def test_a_monitor_that_is_silent_makes_everything_unknown():
    log = PressureLog()
    log.add(100.0, pressure(NORMAL))
    log.add(105.0, None)
    assert changes(log)[0] == (105.0, UNKNOWN, "the monitor does not answer")
    assert {state.level for state in dimension_pressures(None).values()} == {UNKNOWN}


def test_a_monitor_that_is_older_than_the_silence_does_not_turn_time_back():
    log = PressureLog()
    log.add(100.0, pressure(NORMAL))
    log.add(105.0, None)
    log.add(110.0, pressure(NORMAL, held_s=60))
    assert [at_s for at_s, _, _ in changes(log)] == [105.0, 105.0, 100.0]


def test_before_the_first_word_of_a_monitor_nothing_has_changed():
    log = PressureLog()
    log.add(100.0, None)
    assert changes(log) == []


def test_only_the_newest_are_kept():
    log = PressureLog(max_changes=2)
    for second in range(10):
        log.add(float(second), pressure(ELEVATED if second % 2 else NORMAL))
    assert [change.at_unix_s for change in log.newest_first()] == [9.0, 8.0]
