"""The encoder's engine: a thread runs the steps, the event loop submits and waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from edgelora.errors import EdgeLoraError, InternalError, QueueFullError
from services.inference.encoder.backend import EncoderBackend
from services.inference.encoder.encoding import Encoded, Encoding
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.outbox import EncoderOutbox
from services.inference.encoder.status import EncoderStatus
from services.inference.encoder.step_loop import EncoderEngineConfig, EncoderSteps, StepObserver
from services.inference.engine.observer import EngineObserver
from services.inference.engine.sequence import AdapterUse, Priority
from services.inference.engine.step_thread import StepThread


class EncoderEngine:
    """Runs texts on a back end. All public methods belong to the event loop's thread."""

    def __init__(
        self,
        backend: EncoderBackend,
        config: EncoderEngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        observe_step: StepObserver | None = None,
    ) -> None:
        self._backend = backend
        self._config = config
        self._clock = clock
        self._observe_step = observe_step
        self._thread: StepThread[EncoderSteps, EncoderOutbox, EncoderStatus] = StepThread(
            self._load, deliver=self._deliver, died=self._die
        )
        self._next_id = 0
        self._open: dict[int, asyncio.Future[Encoded]] = {}
        self._busy_since_s = clock()
        self.max_adapters = config.limits.max_loras
        """Most adapters one request may have."""

    async def start(self, observer: EngineObserver) -> None:
        """Starts the thread and loads the model in it. Raises what loading raises."""
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        await self._thread.start()

    async def stop(self) -> None:
        """Ends the thread after the step it is in; requests still open end with an error.

        A thread that hangs in the back end is left behind; it ends with the process.
        """
        await self._thread.stop()

    async def encode(
        self,
        texts: Sequence[NDArray[np.int32]],
        *,
        adapters: tuple[AdapterUse, ...] = (),
        wants_head: bool = False,
        priority: Priority = Priority.INTERACTIVE,
        tenant_id: str = "",
        ticket: object = None,
        arrived_s: float | None = None,
    ) -> Encoded:
        """Runs texts, token ids with their special tokens; when cancelled they leave the queue.

        `adapters` have different digests, `ticket` comes back in `adapter_wanted`. `wants_head`:
        for the classifier of the one adapter. Raises QueueFullError, ServiceUnavailableError before
        the model is loaded, InvalidRequestError where a classifier is wanted that the adapter does
        not have, and whatever keeps an adapter from being served.
        """
        self._thread.require_loaded()
        if self._thread.is_dead:
            raise InternalError("the engine has stopped")
        if len(self._open) >= self._config.max_requests:
            raise QueueFullError("the encoder's queue is full: try again", retry_after_s=1.0)
        now_s = self._clock()
        if not self._open:
            self._busy_since_s = now_s
        encoding = Encoding(
            encoding_id=self._next_id,
            texts=tuple(texts),
            adapters=adapters,
            wants_head=wants_head,
            priority=priority,
            tenant_id=tenant_id,
            ticket=ticket,
            arrived_s=now_s if arrived_s is None else arrived_s,
        )
        self._next_id += 1
        end: asyncio.Future[Encoded] = self._loop.create_future()
        self._open[encoding.encoding_id] = end
        self._thread.commands.put(lambda steps: steps.add(encoding))
        try:
            return await end
        finally:
            if self._open.pop(encoding.encoding_id, None) is not None:
                self._thread.commands.put(lambda steps: steps.cancel(encoding.encoding_id))
            elif not end.cancelled():
                end.exception()  # seen, also where the caller left just before it was told

    def adapter_ready(self, digest: str, fetched: FetchedEncoderAdapter) -> None:
        """Answers `adapter_wanted`."""
        self._thread.commands.put(lambda steps: steps.adapters.load(digest, fetched))

    def warm_up(
        self, digest: str, evict_digest: str | None, fetched: FetchedEncoderAdapter
    ) -> None:
        """Has an adapter put into a slot ahead of use, if there is one that nobody needs.

        `evict_digest` may go for it while it is idle.
        """
        self._thread.commands.put(
            lambda steps: steps.adapters.warm_up(digest, evict_digest, fetched)
        )

    def adapter_failed(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Answers `adapter_wanted` when the adapter could not be had with that ticket."""
        self._thread.commands.put(lambda steps: steps.adapters.give_up(digest, ticket, error))

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Says which adapters are gone from the registry: they leave their slots when unused."""
        self._thread.commands.put(lambda steps: steps.adapters.set_deleted(digests))

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Says which adapters leave their slots last."""
        self._thread.commands.put(lambda steps: steps.adapters.set_pinned(digests))

    @property
    def status(self) -> EncoderStatus:
        """The newest snapshot, taken after a step. Raises ServiceUnavailableError before start."""
        return self._thread.status

    @property
    def num_open_requests(self) -> int:
        """Requests that have not ended for their callers."""
        return len(self._open)

    def stalled_s(self) -> float:
        """Seconds since the newest step while there is work to do, else 0."""
        status = self.status
        # All the work may be waiting for the adapters that load; then the thread sleeps.
        if not self._open or (status.num_loading_adapters and self._thread.is_asleep):
            return 0.0
        return max(0.0, self._clock() - max(status.last_step_s, self._busy_since_s))

    def _load(self) -> EncoderSteps:
        steps = EncoderSteps(self._backend, self._config, self._clock)
        self.max_adapters = steps.slots.max_adapters
        steps.observe = self._observe_step
        return steps

    def _deliver(self, outbox: EncoderOutbox) -> None:
        for encoding_id, result in outbox.ends:
            end = self._open.pop(encoding_id, None)
            if end is not None:
                _settle(end, result)
        for wanted in outbox.wanted:
            self._observer.adapter_wanted(wanted.digest, wanted.ticket)
        for digest, error in outbox.refused:
            self._observer.adapter_refused(digest, error)
        if outbox.is_residency_changed:
            self._observer.residency_changed(outbox.loads, outbox.evictions)

    def _die(self) -> None:
        ends, self._open = list(self._open.values()), {}
        for end in ends:
            _settle(end, InternalError("the engine has stopped: send the request again"))
        self._observer.engine_died()


def _settle(end: asyncio.Future[Encoded], result: Encoded | EdgeLoraError) -> None:
    if end.done():  # its caller was cancelled
        return
    if isinstance(result, Encoded):
        end.set_result(result)
    else:
        end.set_exception(result)
