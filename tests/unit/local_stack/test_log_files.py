"""Log files stay small, and their writers notice nothing."""

import os

from edgelora.local_stack.log_files import last_line, last_mistakes, rotate


def test_a_large_log_is_moved_aside_while_its_writer_keeps_the_file_open(tmp_path):
    path = tmp_path / "service.log"
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(writer, b"x" * 100 + b"\n")
        assert rotate(path, max_bytes=50)
        os.write(writer, b"after\n")
    finally:
        os.close(writer)
    assert path.read_bytes() == b"after\n"
    assert (tmp_path / "service.log.1").read_bytes() == b"x" * 100 + b"\n"


def test_a_small_or_missing_log_stays_as_it_is(tmp_path):
    path = tmp_path / "service.log"
    assert not rotate(path, max_bytes=50)
    path.write_text("small")
    assert not rotate(path, max_bytes=50)
    assert path.read_text() == "small"


def test_the_last_line_is_the_last_that_says_something(tmp_path):
    path = tmp_path / "service.log"
    assert last_line(path) == ""
    path.write_bytes(b"first\n" + b"y" * 10_000 + b"\nlast \xff\n\n  \n")
    assert last_line(path) == "last \N{REPLACEMENT CHARACTER}"


def test_the_last_mistakes_are_those_of_the_last_start(tmp_path):
    path = tmp_path / "service.log"
    assert last_mistakes(path, "worker") == []
    path.write_text("a traceback\n")
    assert last_mistakes(path, "worker") == ["a traceback"]
    path.write_text("worker: A is wrong\nworker: A is wrong\nB is not known\n")
    assert last_mistakes(path, "worker") == ["worker: A is wrong", "B is not known"]
