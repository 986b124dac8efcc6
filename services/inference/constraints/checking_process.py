"""The process that compiles a grammar first: `python -I -m` this module, nothing else.

It gets the vocabulary on standard input, then grammars; for each it forks a process that gives up
what it does not need, compiles, and ends. Whatever a grammar manages to use up or to break ends
with that one: by the kernel's own timers, its limits, or a signal. This process has one thread and
never looks at a grammar itself. The worker, which must not fork, starts it by exec.

Frames are a length in 4 bytes, little-endian, and as many bytes; the answer to a grammar is one
byte, a `Verdict`.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from services.inference.constraints.limits import parser_limits
from services.inference.constraints.verdict import Verdict, verdict_of
from services.inference.constraints.vocabulary import OutputVocabulary

if TYPE_CHECKING:
    from llguidance import LLTokenizer

LENGTH_BYTES = 4


def read_frame(source: BinaryIO) -> bytes | None:
    """The next frame, None at the end of the input."""
    head = source.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "little")
    data = source.read(length)
    return data if len(data) == length else None


def serve(cpu_s: float, wall_s: float, memory_bytes: int) -> None:
    """Answers until the input ends."""
    vocabulary = read_frame(sys.stdin.buffer)
    if vocabulary is None:
        return
    tokenizer = OutputVocabulary.from_bytes(vocabulary).open(is_fast=False)
    del vocabulary
    # The children share these pages as long as nobody writes to them.
    gc.freeze()
    while (grammar := read_frame(sys.stdin.buffer)) is not None:
        verdict = _check_in_child(tokenizer, grammar.decode(), cpu_s, wall_s, memory_bytes)
        os.write(sys.stdout.fileno(), bytes([verdict]))


def _check_in_child(
    tokenizer: LLTokenizer, grammar: str, cpu_s: float, wall_s: float, memory_bytes: int
) -> Verdict:
    child = os.fork()
    if child == 0:
        _limit(cpu_s, wall_s, memory_bytes)
        _compile_and_exit(tokenizer, grammar)
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        # Half of its processor time is many times what an ordinary grammar takes.
        has_computed = used.ru_utime + used.ru_stime >= cpu_s / 2
        is_late = os.WTERMSIG(status) == signal.SIGALRM and not has_computed
        # None of its limits ends it so: the machine lacks memory, or somebody did.
        is_killed = os.WTERMSIG(status) == signal.SIGKILL
        return Verdict.TIMED_OUT if is_late or is_killed else Verdict.TOO_COMPLEX
    return Verdict(os.WEXITSTATUS(status))


def _limit(cpu_s: float, wall_s: float, memory_bytes: int) -> None:
    """The default action of both timers' signals ends the process, whatever it is in."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used_bytes = pages * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_AS, used_bytes + memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _compile_and_exit(tokenizer: LLTokenizer, grammar: str) -> NoReturn:
    verdict = Verdict.TOO_COMPLEX
    try:
        verdict = _compile(tokenizer, grammar)
    finally:
        # Also over what llguidance raises when it panics, which is no Exception.
        os._exit(verdict)


def _compile(tokenizer: LLTokenizer, grammar: str) -> Verdict:
    from llguidance import LLMatcher

    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=parser_limits())
    verdict = verdict_of(matcher.get_error())
    if verdict is not Verdict.FITS:
        return verdict
    # A reference that only leads back to itself compiles, and allows nothing.
    is_empty = not any(matcher.compute_bitmask())
    if matcher.is_error() or is_empty:
        return Verdict.TOO_COMPLEX if "Complex" in matcher.stop_reason() else Verdict.UNSATISFIABLE
    return Verdict.FITS


if __name__ == "__main__":
    serve(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
