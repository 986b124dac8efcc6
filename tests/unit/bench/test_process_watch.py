"""A watch notices processes that ended or were replaced, and how memory grows."""

import os
import subprocess
import sys

import pytest

from bench.process_watch import ProcessWatch, read_pids, slope_mib_per_h

MIB = 2**20


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_crash_is_reported_whether_or_not_somebody_restarts_it(tmp_path, child):
    (tmp_path / "inference.pid").write_text(f"{child.pid}\n")
    (tmp_path / "gateway.pid").write_text(f"{os.getpid()}\n")
    watch = ProcessWatch(read_pids(tmp_path))
    watch.look(tmp_path)
    assert watch.changed == set()
    child.kill()
    child.wait()
    watch.look(tmp_path)
    assert watch.changed == {"inference"}
    (tmp_path / "inference.pid").write_text(f"{os.getpid()}\n")
    again = ProcessWatch({"inference": child.pid, "gateway": os.getpid()})
    again.look(tmp_path)
    assert again.changed == {"inference"}


def test_a_service_whose_pid_file_is_gone_has_ended(tmp_path):
    file = tmp_path / "monitor.pid"
    file.write_text(f"{os.getpid()}\n")
    watch = ProcessWatch(read_pids(tmp_path))
    file.unlink()
    watch.look(tmp_path)
    assert watch.changed == {"monitor"}


def test_the_slope_is_that_of_the_straight_line():
    line = [(float(at_s), 50 * MIB + at_s * MIB // 60) for at_s in range(0, 600, 5)]
    assert slope_mib_per_h(line) == pytest.approx(60.0, rel=1e-3)
    assert slope_mib_per_h([(at_s, 7) for at_s in (0.0, 100.0)]) == 0.0
    assert slope_mib_per_h(line[:5]) is None
    assert slope_mib_per_h([]) is None


def test_memory_has_a_row_for_each_service_and_for_all():
    watch = ProcessWatch({"gateway": 1, "monitor": 2})
    watch.samples = [
        (at_s, {"gateway": 10 * MIB, "monitor": (10 + number) * MIB})
        for number, at_s in enumerate((0.0, 60.0, 120.0, 180.0))
    ]
    assert [
        (row["process"], row["growth_mib"], row["slope_mib_per_h"]) for row in watch.memory()
    ] == [
        ("gateway", 0.0, 0.0),
        ("monitor", 3.0, 60.0),
        ("all", 3.0, 60.0),
    ]
