"""Rounds of the car on a real stack, whose remote is really gone."""

import pytest

from bench.process_watch import ProcessWatch
from bench.result import BenchOptions
from bench.scenario_car import Drive, result, run_rounds
from tests.support.prepared_model import prepared_model
from tests.support.request_records import record

pytestmark = pytest.mark.integration


async def test_all_are_answered_while_an_installation_fails():
    found = await run_rounds(2, BenchOptions(model_directory=prepared_model()))
    assert found.results["installing_meanwhile"] == "UNAVAILABLE unreachable"
    assert found.results["requests_that_asked_the_remote"] == 0
    assert found.results["ends"]["done"] == found.results["ends"]["sent"] == 6
    assert [(row["who"], row["done"]) for row in found.results["occupants"]] == [
        ("driver", 2),
        ("passenger", 2),
        ("child", 2),
    ]
    targets = {target.name: target for target in found.targets}
    assert targets["the remote was cut"].ok
    assert targets["processes that ended"].ok


def test_a_remote_that_still_answers_and_a_lost_request_are_reported():
    drive = Drive([], None, 1)
    drive.installation = "installed"
    drive.records["driver"] = [record(first=0.1)]
    drive.records["child"] = [record(finished=None, num_ends=0)]
    targets = {target.name: target for target in result(drive, ProcessWatch({})).targets}
    assert targets["driver's first response, p95, ms"].value == 100.0
    assert not targets["the remote was cut"].ok
    assert not targets["requests lost"].ok
