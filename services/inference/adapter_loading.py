"""Brings adapters to the engine when it asks for them. Lives on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterRejectedError,
    DataCorruptError,
    EdgeLoraError,
    InternalError,
)
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.logs import get_logger
from services.inference.adapter_source import AdapterSource
from services.inference.engine.engine import Engine
from services.inference.refusals import Refusals

_ADAPTER_FAULTS = (AdapterRejectedError, AdapterIncompatibleError, DataCorruptError, InternalError)
"""Faults another try soon would meet again."""


class AdapterLoading:
    """Implements the engine's `EngineObserver`.

    The engine asks for a digest once until it is answered, so every fetch is the only one.
    """

    def __init__(
        self,
        engine: Engine,
        source: AdapterSource,
        refusals: Refusals,
        *,
        on_residency_changed: Callable[[], None],
        on_engine_died: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._source = source
        self._refusals = refusals
        self._on_residency_changed = on_residency_changed
        self._on_engine_died = on_engine_died
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, digests: tuple[str, ...]) -> None:
        """Raises the error of an adapter that was refused a short while ago."""
        for digest in digests:
            error = self._refusals.find(digest, self._clock())
            if error is not None:
                raise error

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        """See EngineObserver. The ticket is the sealed one of a request that names the digest."""
        assert isinstance(ticket, Sealed)
        task = asyncio.create_task(self._fetch(digest, ticket))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        """See EngineObserver."""
        get_logger().warning("adapter_refused", digest=digest, error=type(error).__name__)
        if isinstance(error, _ADAPTER_FAULTS):
            self._refusals.add(digest, error, self._clock())
            self._on_residency_changed()

    def residency_changed(self) -> None:
        """See EngineObserver."""
        self._on_residency_changed()

    def engine_died(self) -> None:
        """See EngineObserver."""
        self._on_engine_died()

    async def close(self) -> None:
        """Cancels the fetches under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _fetch(self, digest: str, ticket: Sealed) -> None:
        started_s = self._clock()
        try:
            weights = await self._source.fetch(digest, ticket)
        except EdgeLoraError as error:
            self.adapter_refused(digest, error)
            self._engine.adapter_failed(digest, ticket, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for it must learn of any failure
            get_logger().error("adapter_fetch_failed", digest=digest, error=type(error).__name__)
            failure = InternalError("the adapter could not be read")
            self.adapter_refused(digest, failure)
            self._engine.adapter_failed(digest, ticket, failure)
        else:
            fetch_ms = round((self._clock() - started_s) * 1000, 1)
            get_logger().info("adapter_fetched", digest=digest, fetch_ms=fetch_ms)
            self._engine.adapter_ready(digest, weights)
