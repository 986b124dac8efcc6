"""Has grammars checked by a process of their own, one at a time."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from edgelora.errors import QueueFullError, ServiceUnavailableError
from services.chassis.logs import get_logger
from services.inference.constraints.verdict import Verdict

_MODULE = "services.inference.constraints.checking_process"
_ANSWER_SLACK_S = 2.0
"""What the process may take beside the time that a grammar may."""
_START_LIMIT_S = 30.0
_MAX_WAITING = 32
_MAX_WAITING_OF_TENANT = 8


class GrammarChecker:
    """Asks the process, starts it when it is first needed and again when it has gone."""

    def __init__(
        self,
        vocabulary: Callable[[], bytes],
        *,
        cpu_s: float = 0.06,
        wall_s: float = 0.15,
        memory_bytes: int = 128 << 20,
    ) -> None:
        """`vocabulary` gives `OutputVocabulary.to_bytes`. The others are what one grammar may take:
        processor time, time on the clock, memory beside the vocabulary's.
        """
        self._vocabulary = vocabulary
        self._limits = (cpu_s, wall_s, memory_bytes)
        self._answer_limit_s = wall_s + _ANSWER_SLACK_S
        self._turn = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        """Of each tenant that waits: only its first stands in line, so that tenants alternate."""
        self._waiting: Counter[str] = Counter()
        self._process: Process | None = None

    async def check(self, grammar: str, tenant_id: str) -> Verdict:
        """Compiles a grammar over there.

        Raises QueueFullError when too many wait already, and ServiceUnavailableError when there is
        no process that answers.
        """
        if (
            self._waiting.total() >= _MAX_WAITING
            or self._waiting[tenant_id] >= _MAX_WAITING_OF_TENANT
        ):
            raise QueueFullError(
                "too many constraints are being prepared: try again in a moment", retry_after_s=1.0
            )
        self._waiting[tenant_id] += 1
        try:
            async with self._turns.setdefault(tenant_id, asyncio.Lock()), self._turn:
                return await self._ask(grammar.encode())
        finally:
            self._waiting[tenant_id] -= 1
            if not self._waiting[tenant_id]:
                del self._waiting[tenant_id], self._turns[tenant_id]

    async def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, grammar: bytes) -> Verdict:
        is_answered = False
        try:
            if self._process is None:
                self._process = await self._start()
            assert self._process.stdin is not None and self._process.stdout is not None
            async with asyncio.timeout(self._answer_limit_s):
                await _write_frame(self._process, grammar)
                answer = await self._process.stdout.readexactly(1)
            is_answered = True
            return Verdict(answer[0])
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            get_logger().error("grammar_checker_lost", error=type(error).__name__)
            raise ServiceUnavailableError(
                "the constraint could not be checked: try again in a moment", retry_after_s=1.0
            ) from None
        finally:
            # Also when the request was cancelled: nobody would read the answer that is to come.
            if not is_answered:
                await self.close()

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-B",
            "-m",
            _MODULE,
            *map(str, self._limits),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        async with asyncio.timeout(_START_LIMIT_S):
            await _write_frame(process, self._vocabulary())
        return process


async def _write_frame(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(data).to_bytes(4, "little") + data)
    await process.stdin.drain()
