"""Two stacks on one home are refused; nothing is left behind."""

import os
import signal
import subprocess
import sys

import pytest

from edgelora.local_stack.errors import StackError
from edgelora.local_stack.home_lock import home_lock
from edgelora.local_stack.layout import StackLayout

HOLDER = """
import sys
from pathlib import Path
from edgelora.local_stack.home_lock import home_lock
from edgelora.local_stack.layout import StackLayout
with home_lock(StackLayout(Path(sys.argv[1]), Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def test_a_second_launcher_is_refused_by_name_of_the_home(tmp_path, holder):
    with (
        pytest.raises(StackError, match=f"running already with home {tmp_path}"),
        home_lock(StackLayout(tmp_path, tmp_path)),
    ):
        pass


def test_a_killed_launcher_holds_nothing(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with home_lock(StackLayout(tmp_path, tmp_path)):
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
