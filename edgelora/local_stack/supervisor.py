"""Keeps a set of services running: parallel start, readiness, restarts, ordered stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from edgelora.local_stack.errors import StackError
from edgelora.local_stack.log_files import last_line, last_mistakes, rotate
from edgelora.local_stack.processes import ChildProcess
from edgelora.local_stack.restart_policy import CrashHistory, RestartPolicy

_PROBE_INTERVAL_S = 0.1
_LOG_CHECK_INTERVAL_S = 5.0
_UNREADY_GRACE_S = 2.0
"""For a service that was never ready: it runs no request that would have to end."""
_EXIT_BAD_CONFIG = 2
"""A service that cannot be configured ends with this; starting it again cannot help."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """How to run one service."""

    name: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    probe: Callable[[], Awaitable[bool]]
    """Whether it is ready; it may be asked before anything listens."""
    sockets: Sequence[Path] = ()
    """It makes them when it listens. Removed before each start: a killed predecessor may have left
    them."""
    stop_grace_s: float = 12.0


class ServiceState(Enum):
    """What the launcher knows of a service."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


@dataclass(slots=True)
class _Service:
    spec: ServiceSpec
    history: CrashHistory
    process: ChildProcess | None = None
    state: ServiceState = ServiceState.STOPPED
    watcher: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    was_ready: bool = False


Report = Callable[[str, ServiceState, str], None]
"""(service, its new state, a note for people), called at every change."""


class Supervisor:
    """Runs services until `stop`. Use it as an asynchronous context: leaving it stops them."""

    def __init__(
        self,
        *,
        logs: Path,
        pids: Path,
        report: Report,
        policy: RestartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._pids = pids
        self._report = report
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._services: dict[str, _Service] = {}
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_stopping = False
        self._log_task = asyncio.create_task(self._keep_logs_small())

    def start(self, spec: ServiceSpec) -> None:
        """Starts a service and returns at once."""
        service = _Service(spec, CrashHistory(self._policy))
        self._services[spec.name] = service
        self._launch(service)
        service.watcher = asyncio.create_task(self._watch(service))

    async def wait_ready(self, limit_s: float) -> None:
        """Returns when every service is ready.

        Raises StackError when one ends for good, or the time is over.
        """
        waits = [asyncio.create_task(s.ready.wait()) for s in self._services.values()]
        everything = asyncio.gather(*waits)
        try:
            futures: set[asyncio.Future[Any]] = {everything, self._failure}
            await asyncio.wait(futures, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            if not everything.done():
                late = ", ".join(n for n, s in self._services.items() if not s.ready.is_set())
                raise StackError(
                    f"not ready after {limit_s:.0f} s: {late}: see the logs in {self._logs}"
                )
        finally:
            everything.cancel()
            with suppress(asyncio.CancelledError):
                await everything

    async def wait_failure(self) -> None:
        """Waits until a service is given up, then raises StackError."""
        await asyncio.shield(self._failure)

    async def guard(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Runs `work` and returns its result, as long as no service is given up.

        Raises StackError when one is; the work is cancelled then.
        """
        task = asyncio.create_task(work)
        try:
            futures: set[asyncio.Future[Any]] = {task, self._failure}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def pids(self) -> dict[str, int]:
        """Returns the process ids of the services that run."""
        return {
            name: service.process.pid
            for name, service in self._services.items()
            if service.process is not None
        }

    async def stop(self) -> None:
        """Stops the services, the one started last first."""
        self._is_stopping = True
        self._log_task.cancel()
        for service in self._services.values():
            if service.watcher is not None:
                service.watcher.cancel()
        for service in reversed(self._services.values()):
            if service.process is not None:
                grace_s = service.spec.stop_grace_s
                await service.process.stop(grace_s if service.was_ready else _UNREADY_GRACE_S)
                service.process = None
                self._set_state(service, ServiceState.STOPPED)
        if not self._failure.cancel() and not self._failure.cancelled():
            self._failure.exception()  # seen: no warning when it is collected

    def kill(self) -> None:
        """Kills everything at once. `stop`, if it is waiting, then ends at once."""
        self._is_stopping = True
        for service in self._services.values():
            if service.process is not None:
                service.process.kill()

    def _launch(self, service: _Service) -> None:
        for socket in service.spec.sockets:
            socket.unlink(missing_ok=True)
        service.process = ChildProcess(
            service.spec.argv,
            environ=service.spec.environ,
            log=self._log(service),
            pid_file=self._pids / f"{service.spec.name}.pid",
        )
        if service.state is ServiceState.STOPPED:
            self._set_state(service, ServiceState.STARTING)

    async def _watch(self, service: _Service) -> None:
        """Follows one service through its lives."""
        while True:
            assert service.process is not None
            ended = asyncio.create_task(service.process.wait())
            probing = asyncio.create_task(self._probe(service))
            try:
                status = await ended
            finally:
                ended.cancel()
                probing.cancel()
            service.ready.clear()
            service.process.kill()  # what it left in its session
            if self._is_stopping:
                return
            note = self._explain(service, status)
            delay_s = service.history.record(self._clock())
            is_misconfigured = status == _EXIT_BAD_CONFIG and not service.was_ready
            if delay_s is None or is_misconfigured:
                self._set_state(service, ServiceState.GIVEN_UP, note)
                if not self._failure.done():
                    self._failure.set_exception(StackError(f"{service.spec.name} {note}"))
                return
            self._set_state(service, ServiceState.RESTARTING, note)
            await asyncio.sleep(delay_s)
            self._launch(service)

    async def _probe(self, service: _Service) -> None:
        spec = service.spec
        # Looking for the socket is cheap; a probe may open a connection.
        while not (  # noqa: ASYNC110 - the state of another process
            all(path.exists() for path in spec.sockets) and await spec.probe()
        ):
            await asyncio.sleep(_PROBE_INTERVAL_S)
        service.ready.set()
        service.was_ready = True
        self._set_state(service, ServiceState.READY)

    def _set_state(self, service: _Service, state: ServiceState, note: str = "") -> None:
        service.state = state
        self._report(service.spec.name, state, note)

    def _explain(self, service: _Service, status: int) -> str:
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        log = self._log(service)
        said = last_line(log)
        if status == _EXIT_BAD_CONFIG:
            said = "; ".join(last_mistakes(log, service.spec.name))
        if status < 0 and said.startswith("{"):
            said = ""  # what it did last, not why it ended
        return f"{how}: {said} (log: {log})" if said else f"{how} (log: {log})"

    def _log(self, service: _Service) -> Path:
        return self._logs / f"{service.spec.name}.log"

    async def _keep_logs_small(self) -> None:
        while True:
            for service in self._services.values():
                rotate(self._log(service))
            await asyncio.sleep(_LOG_CHECK_INTERVAL_S)
