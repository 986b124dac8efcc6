"""Reading what stands where a sensor's file should be."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from services.monitor.probes.sensor_files import read_text


def test_of_a_large_file_only_the_beginning_is_read(tmp_path):
    path = tmp_path / "temp"
    with path.open("wb") as file:
        file.truncate(2**30)
    assert len(read_text(path)) == 16 * 1024


def test_a_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "temp"
    os.mkfifo(path)
    assert read_text(path) == ""  # nobody writes
    with closing(os.fdopen(os.open(path, os.O_RDWR), "wb", buffering=0)) as writer:
        assert read_text(path) == ""  # somebody may
        writer.write(b"41000")
        assert read_text(path) == "41000"


def test_a_directory_is_an_error_and_leaves_nothing_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
