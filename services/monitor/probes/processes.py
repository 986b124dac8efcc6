"""What our own processes use, found by the pid files of the launcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from services.monitor.sample import ProcessUse


@dataclass(frozen=True, slots=True)
class _Followed:
    process: psutil.Process
    cpu_s: float
    at_s: float


class ProcessProbe:
    """Follows `<service>.pid` files. A process shows up with its second reading, because CPU use
    needs two."""

    def __init__(self, run_directory: Path | None, clock: Callable[[], float]) -> None:
        self._run_directory = run_directory
        self._clock = clock
        self._followed: dict[str, _Followed] = {}

    def read(self) -> list[ProcessUse]:
        """Returns the processes that live, by service name."""
        uses = []
        last, self._followed = self._followed, {}
        for service, pid in sorted(self._pids().items()):
            before = last.get(service)
            try:
                process = (
                    before.process
                    if before is not None and before.process.pid == pid
                    else psutil.Process(pid)
                )
                if not process.is_running():  # the number belongs to another process by now
                    continue
                times = process.cpu_times()
                rss_bytes = process.memory_info().rss
            except (psutil.Error, OSError):
                continue
            now = _Followed(process, times.user + times.system, self._clock())
            self._followed[service] = now
            if before is not None and before.process is process and now.at_s > before.at_s:
                cores = (now.cpu_s - before.cpu_s) / (now.at_s - before.at_s)
                uses.append(
                    ProcessUse(
                        service=service, pid=pid, rss_bytes=rss_bytes, cpu_cores=max(0.0, cores)
                    )
                )
        return uses

    def _pids(self) -> dict[str, int]:
        pids = {}
        if self._run_directory is not None:
            for path in self._run_directory.glob("*.pid"):
                try:
                    pids[path.stem] = int(path.read_text(encoding="ascii"))
                except (OSError, ValueError):
                    continue  # just being written or removed
        return {service: pid for service, pid in pids.items() if pid > 0}
