"""The log loses lines before it loses a request."""

from __future__ import annotations

import json
import os
import sys

import pytest
import structlog

from services.chassis.logs import configure_logging, get_logger


@pytest.fixture(autouse=True)
def _own_configuration():
    configure_logging("probe")
    yield
    structlog.reset_defaults()


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_line_holds_service_level_and_event(capsys):
    get_logger().warning("something", count=3)
    (line,) = lines(capsys)
    assert (line["service"], line["level"], line["event"], line["count"]) == (
        "probe",
        "warning",
        "something",
        3,
    )


def test_lines_a_full_disk_refuses_are_counted_and_nothing_fails_F11(capsys, monkeypatch):
    with monkeypatch.context() as patch, open("/dev/full", "w") as full:
        patch.setattr(sys, "stdout", full)
        for _ in range(3):
            get_logger().info("lost")
        patch.undo()
        # What the buffer still holds goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    get_logger().info("first after it")
    get_logger().info("second after it")
    assert [(line["event"], line.get("num_lines")) for line in lines(capsys)] == [
        ("log_lines_lost", 3),
        ("first after it", None),
        ("second after it", None),
    ]
