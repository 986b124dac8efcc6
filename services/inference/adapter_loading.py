"""Brings adapters to the engine when it asks for them, or ahead of use. Lives on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterRejectedError,
    DataCorruptError,
    EdgeLoraError,
    InternalError,
)
from edgelora.v1.adapter_store_service_pb2 import WarmUp
from edgelora.v1.ticket_pb2 import Sealed, Ticket
from services.chassis.logs import get_logger
from services.chassis.tracing import inside, remembered
from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.fetched_adapter import FinishedLoad
from services.inference.engine.sequence import Priority
from services.inference.refusals import Refusals
from services.inference.residency_events import ResidencyEvents
from services.inference.slot_engine import AdapterFetcher, FetchedT, SlotEngine
from services.inference.validation import to_priority

_ADAPTER_FAULTS = (AdapterRejectedError, AdapterIncompatibleError, DataCorruptError, InternalError)
"""Faults another try soon would meet again."""


class AdapterLoading(Generic[FetchedT]):
    """Implements the engine's `EngineObserver`.

    The engine asks for a digest once until it is answered, so every fetch for a request is the only
    one. One that is being fetched ahead of use meanwhile becomes the request's.
    """

    def __init__(
        self,
        engine: SlotEngine[FetchedT],
        source: AdapterFetcher[FetchedT],
        refusals: Refusals,
        events: ResidencyEvents,
        *,
        on_residency_changed: Callable[[], None],
        on_engine_died: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`events` takes what came into the slots and left them, until it is reported."""
        self._engine = engine
        self._source = source
        self._refusals = refusals
        self._events = events
        self._on_residency_changed = on_residency_changed
        self._on_engine_died = on_engine_died
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._warm_ups: dict[str, asyncio.Task[FetchedT | None]] = {}

    def check(self, tenant_id: str, digests: tuple[str, ...]) -> None:
        """Raises the error of an adapter that was refused to the tenant a short while ago."""
        for digest in digests:
            error = self._refusals.find(digest, tenant_id, self._clock())
            if error is not None:
                raise error

    def warm_up(self, wishes: Iterable[WarmUp]) -> None:
        """Has adapters put into slots ahead of use, where nobody needs the slot, in order."""
        known = {slot.digest for slot in self._engine.status.slots} | self._warm_ups.keys()
        known |= self._refusals.current(self._clock()).keys()
        for wish in wishes:
            if wish.digest in known:
                continue
            fetching = asyncio.create_task(self._fetch_ahead(wish.digest, wish.permit))
            self._warm_ups[wish.digest] = fetching
            self._start(self._finish_warm_up(wish, fetching))

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        """See EngineObserver. The ticket is the sealed one of a request that names the digest."""
        assert isinstance(ticket, Sealed)
        self._start(self._bring(digest, ticket))

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        """See EngineObserver."""
        self._refuse(digest, error, None)

    def residency_changed(
        self, loads: Sequence[FinishedLoad], evictions: Sequence[Eviction]
    ) -> None:
        """See EngineObserver."""
        self._events.add(loads, evictions)
        self._on_residency_changed()

    def engine_died(self) -> None:
        """See EngineObserver."""
        self._on_engine_died()

    async def close(self) -> None:
        """Cancels the fetches under way."""
        tasks = [*self._tasks, *self._warm_ups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refuse(self, digest: str, error: EdgeLoraError, tenant_id: str | None) -> None:
        get_logger().warning("adapter_refused", digest=digest, error=type(error).__name__)
        if isinstance(error, _ADAPTER_FAULTS):
            self._refusals.add(digest, error, self._clock(), tenant_id=tenant_id)
            self._on_residency_changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring(self, digest: str, ticket: Sealed) -> None:
        """Fetches what a request waits for; what goes wrong is an answer as well."""
        with inside(remembered(Ticket.FromString(ticket.payload).ticket_id)):
            await self._answer(digest, ticket)

    async def _answer(self, digest: str, ticket: Sealed) -> None:
        started_s = self._clock()
        try:
            ahead = self._warm_ups.get(digest)
            fetched = await asyncio.shield(ahead) if ahead is not None else None
            if fetched is None:
                # None is on its way, or it went wrong with its permit: this ticket is another try.
                fetched = await self._source.fetch(digest, ticket, is_urgent=_is_urgent(ticket))
        except EdgeLoraError as error:
            self._refuse(digest, error, _tenant_of(ticket))
            self._engine.adapter_failed(digest, ticket, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for it must learn of any failure
            get_logger().error("adapter_fetch_failed", digest=digest, error=type(error).__name__)
            failure = InternalError("the adapter could not be read")
            self._refuse(digest, failure, _tenant_of(ticket))
            self._engine.adapter_failed(digest, ticket, failure)
        else:
            fetch_ms = round((self._clock() - started_s) * 1000, 1)
            get_logger().info("adapter_fetched", digest=digest, fetch_ms=fetch_ms)
            self._engine.adapter_ready(digest, fetched)

    async def _fetch_ahead(self, digest: str, permit: Sealed) -> FetchedT | None:
        try:
            return await self._source.fetch(digest, permit)
        except Exception as error:  # noqa: BLE001 - nobody waits for it yet, a request will meet it
            get_logger().warning("warm_up_failed", digest=digest, error=type(error).__name__)
            return None

    async def _finish_warm_up(self, wish: WarmUp, fetching: asyncio.Task[FetchedT | None]) -> None:
        try:
            fetched = await asyncio.shield(fetching)
        finally:
            del self._warm_ups[wish.digest]
        if fetched is not None:
            self._engine.warm_up(wish.digest, wish.evict_digest or None, fetched)


def _is_urgent(ticket: Sealed) -> bool:
    return to_priority(Ticket.FromString(ticket.payload).priority) is Priority.INTERACTIVE


def _tenant_of(ticket: Sealed) -> str:
    """Whose a ticket is. The servicer has opened it."""
    return Ticket.FromString(ticket.payload).tenant_id
