"""`edgelora up` as a user starts it, and what must be gone when it has ended."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
EDGELORA = Path(sys.executable).parent / "edgelora"
MODEL = "smollm2-135m-instruct"
LIMIT_S = 100.0
_POLL_S = 0.02


class UpProcess:
    """One launcher with a home and a runtime directory of its own."""

    def __init__(self, directory, runtime, *arguments, settings=None):
        """`directory` holds home and output; `runtime` must have a short path."""
        self.home = directory / "home"
        self.runtime = runtime
        self.arguments = arguments
        (self.home / "models").mkdir(parents=True, exist_ok=True)
        link = self.home / "models" / MODEL
        if not link.exists():
            link.symlink_to(prepared_model())
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "EDGELORA_HOME": str(self.home),
            "TMPDIR": str(runtime),
            **(settings or {}),
        }
        self._out = directory / "out"
        self._err = directory / "err"
        self.process = None

    def start(self):
        """Starts the command with its output in files."""
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [EDGELORA, "up", *self.arguments],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        return self

    @property
    def output(self):
        return self._out.read_text()

    @property
    def errors(self):
        return self._err.read_text()

    @property
    def state(self):
        """What the stack says of itself, None while there is none."""
        try:
            return json.loads((self.home / "stack.json").read_text())
        except FileNotFoundError:
            return None

    def pids(self):
        """Service -> process id, by the pid files."""
        found = {}
        for path in self.runtime.glob("*/pids/*.pid"):
            text = path.read_text().strip()
            if text:
                found[path.stem] = int(text)
        return found

    def wait_until(self, condition):
        """Waits for something to be true; fails when the launcher ends before."""
        end = time.monotonic() + LIMIT_S
        while not condition(self):
            assert self.process.poll() is None, f"it ended early\n{self.output}\n{self.errors}"
            assert time.monotonic() < end, f"waited in vain\n{self.output}\n{self.errors}"
            time.sleep(_POLL_S)

    def wait_until_serving(self):
        """Waits for the addresses on the screen."""
        self.wait_until(lambda up: "Ctrl-C stops everything." in up.output)

    def finish(self):
        """Waits for the command to end by itself and returns its exit status."""
        return self.process.wait(timeout=LIMIT_S)

    def stop(self, number=signal.SIGINT):
        """Sends a signal, waits for the end, and returns the exit status."""
        self.process.send_signal(number)
        return self.finish()

    def run(self, *arguments, status=0, text=None):
        """Runs another `edgelora` command against this stack and returns what it printed."""
        done = subprocess.run(
            [EDGELORA, *arguments],
            env=self.environ,
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == status, f"{arguments}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    def shell(self, line):
        """Runs a line a user pastes into a shell and returns what it printed."""
        done = subprocess.run(
            ["sh", "-c", line], env=self.environ, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_json(self, *arguments):
        """As `run`, with --json; returns the document."""
        return json.loads(self.run(*arguments, "--json"))

    def leftovers(self):
        """Everything of the stack that is still there, as text for an assertion."""
        found = [f"process {process.pid} {process.name()}" for process in self.processes()]
        found += [str(path) for path in self.runtime.rglob("*")]
        found += [str(path) for path in self.home.glob("stack.json*")]
        descriptor = os.open(self.home, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append("the lock of the home")
        finally:
            os.close(descriptor)
        return found

    def processes(self):
        """Every live process that belongs to this stack, the launcher excepted."""
        ours = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), process.environ().get("TMPDIR", "")]
                is_ours = any(str(self.runtime) in word for word in words)
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    ours.append(process)
            except psutil.Error:
                continue
        return [process for process in ours if process.pid != self.process.pid]

    def kill(self):
        """Ends the launcher whatever it does; its children die with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def up_process(directory, *arguments, settings=None):
    """Yields a launcher that is not started yet, and ends it."""
    with tempfile.TemporaryDirectory(prefix="el-") as runtime:
        up = UpProcess(directory, Path(runtime), *arguments, settings=settings)
        try:
            yield up
        finally:
            up.kill()


def prepared_model():
    """The prepared model all tests share."""
    home = Path(os.environ.get("EDGELORA_HOME", ROOT / ".edgelora"))
    return home.resolve() / "models" / MODEL


def is_listening(address):
    """Whether somebody accepts connections at `host:port`."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
