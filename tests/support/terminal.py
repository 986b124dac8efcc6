"""A command on a terminal of its own, so that it draws and takes Ctrl-C as for a person."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

_LIMIT_S = 60.0
_TAKE_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.Handlers[sys.argv[1]]); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class Terminal:
    """Both ends of a pseudo-terminal and the process that has it for its controlling one."""

    def __init__(self, environ, program, *arguments, term="dumb", interrupt="SIG_DFL"):
        """`interrupt`: what the program finds set for Ctrl-C, whatever the tests run under."""
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, interrupt, program, *arguments],
            env={**environ, "TERM": term},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def expect(self, pattern):
        """Reads until the pattern is on the screen; returns what came before and is now past."""
        end = time.monotonic() + _LIMIT_S
        while (match := re.search(pattern, self._text)) is None:
            assert time.monotonic() < end, self._text
            if select.select([self._ours], [], [], 1)[0]:
                try:
                    self._text += os.read(self._ours, 4096).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"the command has ended: {self._text}") from None
        before, self._text = self._text[: match.end()], self._text[match.end() :]
        return before

    def send(self, text):
        """Types."""
        os.write(self._ours, text.encode())

    def interrupt_at_prompt(self):
        """Presses Ctrl-C once the command waits for input.

        What comes between the prompt's last letter and input()'s wait is seen only with the next
        key; a person is not that fast, a test is.
        """
        num_still, spent = 0, None
        end = time.monotonic() + _LIMIT_S
        while num_still < 5:
            assert time.monotonic() < end, "the command does not wait for input"
            time.sleep(0.02)
            state, *numbers = self._status()
            is_still = state == "S" and numbers == spent
            num_still, spent = (num_still + 1 if is_still else 0), numbers
        self.send("\x03")

    def _status(self):
        """The process's state and its ticks of processor time, user's and system's."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[11], fields[12]

    def wait(self):
        """Returns the exit status; what is printed until then is not lost to the command."""
        while self.process.poll() is None:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self._text += os.read(self._ours, 4096).decode(errors="replace")
                except OSError:
                    return self.process.wait()
        return self.process.wait()
