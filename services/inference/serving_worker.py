"""A worker that serves, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from services.chassis.server import ServiceHost

EngineT = TypeVar("EngineT")
EXIT_ENGINE_DIED = 70
"""Status of the process of a worker whose engine has died."""


class Worker(Generic[EngineT]):
    """A worker that serves, a decoder's or an encoder's."""

    def __init__(
        self,
        host: ServiceHost,
        engine: EngineT,
        engine_died: asyncio.Event,
        tasks: Sequence[asyncio.Task[None]],
    ) -> None:
        self.engine = engine
        self._host = host
        self._engine_died = engine_died
        self._tasks = tasks

    async def wait_for_end(self) -> bool:
        """Returns when the process is asked to stop, or when the engine has died: then True.

        Raises what ended one of the tasks that never end by themselves.
        """
        ends = [
            asyncio.create_task(self._host.wait_for_stop()),
            asyncio.create_task(self._wait_for_death()),
        ]
        done, _ = await asyncio.wait([*ends, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in ends:
            task.cancel()
        for task in done:
            task.result()
        return self._engine_died.is_set()

    async def _wait_for_death(self) -> None:
        await self._engine_died.wait()
