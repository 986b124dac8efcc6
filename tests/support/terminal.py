"""A command on a terminal of its own, so that it draws and takes Ctrl-C as for a person."""

import os
import pty
import re
import select
import subprocess
import sys
import time

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

    def wait(self):
        """Returns the exit status; what is printed until then is not lost to the command."""
        while self.process.poll() is None:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self._text += os.read(self._ours, 4096).decode(errors="replace")
                except OSError:
                    return self.process.wait()
        return self.process.wait()
