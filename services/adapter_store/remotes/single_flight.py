"""One piece of work for everybody who wants the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    num_waiters: int = 0
    is_ending: bool = False


class SingleFlight(Generic[K, T]):
    """Work by key. A waiter that is cancelled leaves the others alone; the last one ends the work.

    A result lasts as long as somebody holds it; then `release` is called with it.
    """

    def __init__(self, release: Callable[[T], None]) -> None:
        self._release = release
        self._flights: dict[K, _Flight[T]] = {}

    def is_running(self, key: K) -> bool:
        """Whether a newcomer would join work that runs already."""
        flight = self._flights.get(key)
        return flight is not None and not flight.is_ending

    @asynccontextmanager
    async def join(self, key: K, start: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """Holds the result of the work of a key, started by the first who comes.

        Raises what the work raised.
        """
        while (flight := self._flights.get(key)) is not None and flight.is_ending:
            await asyncio.wait([flight.task])
        if flight is None:
            flight = _Flight(asyncio.ensure_future(_run(start)))
            self._flights[key] = flight
        flight.num_waiters += 1
        try:
            yield await asyncio.shield(flight.task)
        finally:
            flight.num_waiters -= 1
            if flight.num_waiters == 0:
                await self._end(key, flight)

    async def _end(self, key: K, flight: _Flight[T]) -> None:
        flight.is_ending = True
        if flight.task.done():
            self._forget(key, flight)
            return
        # Forgotten when it really ends, even if this waiter is cancelled once more.
        flight.task.add_done_callback(lambda _: self._forget(key, flight))
        flight.task.cancel()
        await asyncio.wait([flight.task])

    def _forget(self, key: K, flight: _Flight[T]) -> None:
        del self._flights[key]
        if not flight.task.cancelled() and flight.task.exception() is None:
            self._release(flight.task.result())


async def _run(start: Callable[[], Awaitable[T]]) -> T:
    return await start()
