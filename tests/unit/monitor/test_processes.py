"""Our own processes, followed by their pid files."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from services.monitor.probes.processes import ProcessProbe


@pytest.fixture
def probe(tmp_path, clock):
    return ProcessProbe(tmp_path, clock)


def test_a_process_shows_up_with_its_second_reading(tmp_path, probe, clock):
    (tmp_path / "gateway.pid").write_text(f"{os.getpid()}\n")
    assert probe.read() == []
    clock.advance(1.0)
    [use] = probe.read()
    assert (use.service, use.pid) == ("gateway", os.getpid())
    assert use.rss_bytes > 2**20
    assert use.cpu_cores >= 0.0


@pytest.mark.parametrize("text", ["", "none", "-1", "0", "4194304999"])
def test_pid_files_that_name_nobody(tmp_path, probe, clock, text):
    (tmp_path / "broken.pid").write_text(text)
    (tmp_path / "gateway.pid").write_text(str(os.getpid()))
    probe.read()
    clock.advance(1.0)
    assert [use.service for use in probe.read()] == ["gateway"]


def test_a_dead_process_vanishes_and_its_successor_is_followed_afresh(tmp_path, probe, clock):
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as first:
        (tmp_path / "inference.pid").write_text(str(first.pid))
        probe.read()
        clock.advance(1.0)
        assert [use.pid for use in probe.read()] == [first.pid]
        first.kill()
    clock.advance(1.0)
    assert probe.read() == []
    with subprocess.Popen(command, stdin=subprocess.PIPE) as second:
        (tmp_path / "inference.pid").write_text(str(second.pid))
        assert probe.read() == []
        clock.advance(1.0)
        assert [use.pid for use in probe.read()] == [second.pid]
        second.kill()


def test_a_pid_file_that_changes_is_followed(tmp_path, probe, clock):
    (tmp_path / "inference.pid").write_text(str(os.getpid()))
    probe.read()
    clock.advance(1.0)
    (tmp_path / "inference.pid").write_text(str(os.getppid()))
    assert probe.read() == []
    clock.advance(1.0)
    assert [use.pid for use in probe.read()] == [os.getppid()]


def test_without_a_run_directory_nothing_is_followed(clock):
    assert ProcessProbe(None, clock).read() == []
