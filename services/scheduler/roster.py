"""The workers of this node and whether each may be given work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Worker:
    """One inference worker as the settings name it."""

    name: str
    address: str
    max_running: int
    is_ready: bool = False


class Roster:
    """All workers. None is ready before its health says so."""

    def __init__(self, addresses: Mapping[str, str], max_running: int, now_s: float) -> None:
        self._workers = {
            name: Worker(name=name, address=address, max_running=max_running)
            for name, address in addresses.items()
        }
        self.none_ready_since_s: float | None = now_s
        """Since when no worker is ready; None while one is."""

    def __getitem__(self, name: str) -> Worker:
        return self._workers[name]

    def all(self) -> list[Worker]:
        """Returns every worker in the order of the settings."""
        return list(self._workers.values())

    def ready(self) -> list[Worker]:
        """Returns the workers that may be given work."""
        return [worker for worker in self._workers.values() if worker.is_ready]

    def set_ready(self, name: str, is_ready: bool, now_s: float) -> None:
        """Notes what a worker's health says."""
        self._workers[name].is_ready = is_ready
        if self.ready():
            self.none_ready_since_s = None
        elif self.none_ready_since_s is None:
            self.none_ready_since_s = now_s
