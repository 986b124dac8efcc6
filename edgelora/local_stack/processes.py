"""Child processes that never outlive their launcher, and the pid files that name them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from edgelora.local_stack import die_with_parent

_POLL_S = 0.1
_CLOCK_SLACK_S = 1.0


class ChildProcess:
    """A program in a session of its own, its output appended to a log file.

    Its own session keeps the terminal's Ctrl-C away from it: the launcher stops it in order.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        log: Path,
        pid_file: Path,
    ) -> None:
        shim = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # From the thread that lives longest: the kernel means the parent thread's death.
            self._process = subprocess.Popen(
                [*shim, *argv],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        self._is_cleared = False
        self._pid_file = pid_file
        pid_file.write_text(f"{self._process.pid}\n", encoding="ascii")

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_status(self) -> int | None:
        """The exit status (negative: the signal that ended it), None while it runs."""
        return self._process.poll()

    async def wait(self) -> int:
        """Waits for the process to end and returns its exit status."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:  # kernels before 5.3
            while self._process.poll() is None:  # noqa: ASYNC110 - nothing tells us of an exit
                await asyncio.sleep(_POLL_S)
            return self._process.wait()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return self._process.wait()

    async def stop(self, grace_s: float) -> None:
        """Asks the process to end, and kills what is left of its session after `grace_s`."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.wait()
        self.kill()

    def kill(self) -> None:
        """Kills the process and every process it left in its session."""
        if self._is_cleared:
            return  # the number may be another process's by now
        self._is_cleared = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._pid_file.unlink(missing_ok=True)


def kill_leftovers(pids: Path) -> list[int]:
    """Kills the process groups that pid files of a dead launcher name; returns their pids.

    A process younger than its pid file got the number of one that ended: it is left alone.
    """
    killed = []
    for pid_file in sorted(pids.glob("*.pid")):
        try:
            pid = int(pid_file.read_text(encoding="ascii"))
            written_at = pid_file.stat().st_mtime
            is_older = psutil.Process(pid).create_time() <= written_at + _CLOCK_SLACK_S
            if is_older and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
                killed.append(pid)
        except (OSError, ValueError, psutil.Error):
            continue  # gone, or no process of ours
    _await_deaths(killed)
    return killed


def _await_deaths(pids: Sequence[int], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.02)
