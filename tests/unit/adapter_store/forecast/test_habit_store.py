"""Habits on flash: kept over restarts, gone when forgotten, set aside when damaged."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from services.adapter_store.forecast.habit_store import (
    HABITS_FILE,
    OFF_FILE,
    SET_ASIDE_FILE,
    HabitStore,
)

WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from services.adapter_store.forecast.habit_store import HabitStore
store = HabitStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    store.write({("t", f"u{index}"): str(number) for index in range(50)}, (), {"days": number})
    print(number, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    opened = HabitStore(tmp_path)
    yield opened
    opened.close()


def test_what_was_written_is_read_again(tmp_path, store):
    store.write({("t", "u"): "one", ("t", "v"): "two"}, (), {"days": 1.5})
    store.write({("t", "u"): "three"}, [("t", "v")], {"days": 2.5})
    store.close()
    again = HabitStore(tmp_path)
    assert dict(again.habits()) == {("t", "u"): "three"}
    assert again.state() == {"days": 2.5}
    again.close()
    assert (tmp_path / HABITS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_batch_is_written_whole_or_not_at_all_when_the_process_is_killed(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(20):
        last = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    store = HabitStore(tmp_path)
    documents = dict(store.habits())
    assert len(documents) == 50
    (number,) = set(documents.values())
    assert int(number) >= last
    assert store.state() == {"days": float(number)}
    store.close()
    assert not (tmp_path / SET_ASIDE_FILE).exists()


def test_forgetting_leaves_nothing_in_the_bytes_of_any_file(tmp_path, store):
    secret = "sha256:" + "5ec4e7" * 10
    for batch in range(10):  # enough for pages to split and to become free
        numbers = range(batch, 300, 10)
        store.write(
            {("gone-tenant", f"user-{each}"): f"{secret} {each}" * 20 for each in numbers}, (), {}
        )
        store.write({("kept-tenant", f"user-{each}"): "kept" * 20 for each in numbers}, (), {})
    store.forget("gone-tenant")
    found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in found
    assert b"gone-tenant" not in found
    assert b"kept-tenant" in found
    assert len(dict(store.habits())) == 300


def test_forgetting_takes_a_file_that_was_set_aside_with_it(tmp_path):
    (tmp_path / HABITS_FILE).write_bytes(b"habits of tenant-17, torn" * 100)
    store = HabitStore(tmp_path)
    assert (tmp_path / SET_ASIDE_FILE).exists()
    store.forget("tenant-17")
    store.close()
    assert not any(b"tenant-17" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["noise", "torn", "page", "newer", "other"])
def test_a_damaged_file_is_set_aside_and_learning_starts_anew(tmp_path, store, damage):
    store.write({("t", f"u{number}"): "x" * 500 for number in range(100)}, (), {"days": 3.0})
    store.write_off({"ab" * 16})
    store.close()
    path = tmp_path / HABITS_FILE
    content = path.read_bytes()
    if damage == "noise":
        path.write_bytes(b"\xff" * len(content))
    elif damage == "torn":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "page":
        path.write_bytes(content[:4096] + b"\x07" * 4096 + content[8192:])
    else:
        connection = sqlite3.connect(path)
        if damage == "newer":
            connection.execute("PRAGMA user_version = 99")
        else:
            connection.executescript("PRAGMA user_version = 0; DROP TABLE habits;")
        connection.close()
    again = HabitStore(tmp_path)
    assert dict(again.habits()) == {}
    assert (tmp_path / SET_ASIDE_FILE).exists()
    # Whoever switched it off is not learnt from now.
    assert again.off() == {"ab" * 16}
    again.write({("t", "u"): "new"}, (), {})
    assert dict(again.habits()) == {("t", "u"): "new"}
    again.close()


def test_switches_survive_and_a_damaged_line_costs_only_itself(tmp_path, store):
    hashes = {"01" * 16, "ef" * 16}
    store.write_off(hashes)
    assert store.off() == hashes
    path = tmp_path / OFF_FILE
    path.write_bytes(path.read_bytes() + b"\xff\xfe rubbish\n")
    assert store.off() == hashes


def test_a_directory_that_can_not_be_used_is_no_damage(tmp_path):
    with pytest.raises(OSError, match="can not be opened"):
        HabitStore(tmp_path / "missing")
