"""Children die with their launcher, however it ends, and take their own children with them."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import psutil
import pytest

from edgelora.local_stack.processes import ChildProcess, kill_leftovers

LAUNCHER = """
import os, sys, time
from pathlib import Path
from edgelora.local_stack.processes import ChildProcess
directory = Path(sys.argv[1])
child = ChildProcess(["sleep", "60"], environ=os.environ, log=directory / "log",
                     pid_file=directory / "sleep.pid")
print(child.pid, flush=True)
time.sleep(60)
"""
WITH_GRANDCHILD = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def start_program(*argv):
        child = ChildProcess(
            argv, environ=os.environ, log=tmp_path / "log", pid_file=tmp_path / "one.pid"
        )
        started.append(child)
        return child

    yield start_program
    for child in started:
        child.kill()


async def appears(condition):
    async with asyncio.timeout(20):
        while not (value := condition()):  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.01)
    return value


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_child_dies_with_a_launcher_that_is_killed(tmp_path):
    launcher = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LAUNCHER, tmp_path, stdout=subprocess.PIPE
    )
    child_pid = int(await launcher.stdout.readline())
    await appears(lambda: psutil.Process(child_pid).name() == "sleep")
    launcher.kill()
    await launcher.wait()
    await appears(lambda: is_gone(child_pid))


async def test_a_child_whose_launcher_died_first_does_not_start(tmp_path):
    shim = Path(sys.modules[ChildProcess.__module__].die_with_parent.__file__)
    marker = tmp_path / "ran"
    not_its_parent = os.getppid()
    done = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", shim, str(not_its_parent), "touch", marker),
        stderr=subprocess.DEVNULL,
    )
    assert await done.wait() == 1
    assert not marker.exists()


async def test_stopping_kills_what_ignores_the_request_and_its_children(start, tmp_path):
    child = start(sys.executable, "-c", WITH_GRANDCHILD)
    grandchild = int(await appears((tmp_path / "log").read_text))
    await child.stop(grace_s=0.1)
    assert child.exit_status() == -signal.SIGKILL
    await appears(lambda: is_gone(grandchild))
    assert not (tmp_path / "one.pid").exists()


async def test_a_child_is_out_of_reach_of_the_terminals_signals(start):
    child = start("sleep", "60")
    assert os.getsid(child.pid) == child.pid != os.getsid(0)


async def test_output_is_appended_to_the_log(start, tmp_path):
    (tmp_path / "log").write_text("before\n")
    assert await start("sh", "-c", "echo out; echo err >&2; exit 3").wait() == 3
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


async def test_children_start_beside_a_running_grpc_G05(start, tmp_path):
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.channel_ready()
        for _ in range(20):
            assert await start("true").wait() == 0
    await server.stop(None)
    assert (tmp_path / "log").read_text() == ""  # not a word from gRPC in a forked child


async def test_the_exit_is_seen_without_pidfd_too(start, monkeypatch):
    def refuse(pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert await start("sh", "-c", "exit 4").wait() == 4


def test_leftovers_of_a_dead_launcher_are_killed(tmp_path):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as left:
        (tmp_path / "left.pid").write_text(f"{left.pid}\n")
        # As init does for a child of a dead launcher; what nobody reaps is waited for in vain.
        reaper = threading.Thread(target=left.wait)
        reaper.start()
        assert kill_leftovers(tmp_path) == [left.pid]
        reaper.join()
        assert left.returncode == -signal.SIGKILL


def test_a_process_that_got_the_number_of_an_old_one_is_left_alone(tmp_path):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        pid_file = tmp_path / "old.pid"
        pid_file.write_text(f"{stranger.pid}\n")
        os.utime(pid_file, (1_000_000_000, 1_000_000_000))
        assert kill_leftovers(tmp_path) == []
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1", "99999999"])
def test_a_damaged_pid_file_kills_nothing(tmp_path, text):
    (tmp_path / "bad.pid").write_text(text)
    assert kill_leftovers(tmp_path) == []
