"""Reports of outside sources: how long they count, and how many there may be."""

from __future__ import annotations

import pytest

from edgelora.errors import ResourcePressureError
from services.monitor.reports import MAX_SOURCES, Reports
from services.monitor.sample import ReportedReadings

WARM, HOT = (ReportedReadings(temperatures={"cabin": celsius}) for celsius in (20.0, 60.0))


def test_a_report_replaces_the_last_one_and_counts_for_the_hold():
    reports = Reports(3.0)
    reports.take("vehicle", WARM, 10.0)
    reports.take("vehicle", HOT, 11.0)
    assert reports.at(14.0) == {"vehicle": HOT}
    assert reports.at(14.1) == {"vehicle": None}


def test_a_withdrawn_source_is_forgotten_and_may_be_withdrawn_again():
    reports = Reports(3.0)
    reports.take("vehicle", WARM, 10.0)
    reports.withdraw("vehicle")
    reports.withdraw("vehicle")
    assert reports.at(10.0) == {}


def test_there_is_room_for_sixteen_and_silence_does_not_make_room():
    reports = Reports(3.0)
    for number in range(MAX_SOURCES):
        reports.take(f"source-{number}", WARM, 0.0)
    with pytest.raises(ResourcePressureError, match="16 sources"):
        reports.take("one-more", WARM, 100.0)
    reports.take("source-3", HOT, 100.0)
    reports.withdraw("source-5")
    reports.take("one-more", WARM, 100.0)
    known = reports.at(100.0)
    assert len(known) == MAX_SOURCES
    assert {name for name, readings in known.items() if readings} == {"source-3", "one-more"}
