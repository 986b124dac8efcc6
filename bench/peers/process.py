"""A peer in a process of its own: loaded once, then asked to compute again and again."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).resolve().parents[2]
_ANSWER_LIMIT_S = 900.0
_END_LIMIT_S = 5.0


class PeerError(Exception):
    """A peer could not do what it was asked; the text says why."""


class PeerProcess:
    """The parent's side of the line protocol, see bench.peers.child."""

    def __init__(
        self, interpreter: Path, module: Sequence[str], environ: Mapping[str, str], log: Path
    ) -> None:
        """Starts `interpreter -m module`; `log` takes what the child says on standard error."""
        self._log = log
        with log.open("w", encoding="utf-8") as errors:
            self._child = subprocess.Popen(
                [interpreter, "-m", *module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Found first, so that a peer's child runs this checkout's code.
                env={**os.environ, "PYTHONPATH": str(_ROOT), **environ},
                # It may have children of its own; all end together.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends a command and returns its result. Raises PeerError; then the peer is of no use."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._child.stdin.flush()
        except OSError as error:
            raise PeerError(self._last_words()) from error
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            if not selector.select(_ANSWER_LIMIT_S):
                raise PeerError(f"no answer within {_ANSWER_LIMIT_S:.0f} s")
        line = self._child.stdout.readline()
        if not line:
            raise PeerError(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def close(self) -> None:
        """Ends the child and its children."""
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_END_LIMIT_S)
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"the process ended: {lines[-1]}" if lines else "the process ended without a word"
