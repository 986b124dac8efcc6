"""The encoder's engine: one thread runs the steps, the event loop submits and waits.

As services/inference/engine/engine.py: the event loop talks to the thread through a queue of
commands, the thread answers through a queue of outboxes and a doorbell, once a step. With nothing
to run it blocks on its queue.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

from edgelora.errors import (
    EdgeLoraError,
    InternalError,
    QueueFullError,
    ServiceUnavailableError,
)
from services.chassis.logs import code_places, get_logger
from services.inference.encoder.backend import EncoderBackend
from services.inference.encoder.encoding import Encoded, Encoding
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.outbox import EncoderOutbox
from services.inference.encoder.status import EncoderStatus
from services.inference.encoder.step_loop import EncoderEngineConfig, EncoderSteps, StepObserver
from services.inference.engine.doorbell import Doorbell
from services.inference.engine.observer import EngineObserver
from services.inference.engine.sequence import AdapterUse, Priority

_STOP_LIMIT_S = 5.0


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
        self._commands: SimpleQueue[Callable[[EncoderSteps], None]] = SimpleQueue()
        self._outboxes: deque[EncoderOutbox] = deque()
        self._doorbell: Doorbell | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_dead = False
        self._is_asleep = False
        self._next_id = 0
        self._open: dict[int, asyncio.Future[Encoded]] = {}
        self._busy_since_s = clock()
        self._newest_status: EncoderStatus | None = None
        self.max_adapters = config.limits.max_loras
        """Most adapters one request may have."""

    async def start(self, observer: EngineObserver) -> None:
        """Starts the thread and loads the model in it. Raises what loading raises."""
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._doorbell = Doorbell(self._loop, self._deliver)
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(self._doorbell,), name="engine", daemon=True
        )
        self._thread.start()
        await self._loaded

    async def stop(self) -> None:
        """Ends the thread after the step it is in; requests still open end with an error.

        A thread that hangs in the back end is left behind; it ends with the process.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.is_alive():
            self._commands.put(self._request_stop)
            await asyncio.to_thread(thread.join, _STOP_LIMIT_S)
        doorbell = self._doorbell
        if doorbell is not None and not thread.is_alive():
            self._doorbell = None
            doorbell.close()
            self._deliver()

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
        if self._newest_status is None:
            raise _still_loading()
        if self._is_dead:
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
        self._commands.put(lambda steps: steps.add(encoding))
        try:
            return await end
        finally:
            if self._open.pop(encoding.encoding_id, None) is not None:
                self._commands.put(lambda steps: steps.cancel(encoding.encoding_id))
            elif not end.cancelled():
                end.exception()  # seen, also where the caller left just before it was told

    def adapter_ready(self, digest: str, fetched: FetchedEncoderAdapter) -> None:
        """Answers `adapter_wanted`."""
        self._commands.put(lambda steps: steps.adapters.load(digest, fetched))

    def warm_up(
        self, digest: str, evict_digest: str | None, fetched: FetchedEncoderAdapter
    ) -> None:
        """Has an adapter put into a slot ahead of use, if there is one that nobody needs.

        `evict_digest` may go for it while it is idle.
        """
        self._commands.put(lambda steps: steps.adapters.warm_up(digest, evict_digest, fetched))

    def adapter_failed(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Answers `adapter_wanted` when the adapter could not be had with that ticket."""
        self._commands.put(lambda steps: steps.adapters.give_up(digest, ticket, error))

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Says which adapters are gone from the registry: they leave their slots when unused."""
        self._commands.put(lambda steps: steps.adapters.set_deleted(digests))

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Says which adapters leave their slots last."""
        self._commands.put(lambda steps: steps.adapters.set_pinned(digests))

    @property
    def status(self) -> EncoderStatus:
        """The newest snapshot, taken after a step. Raises ServiceUnavailableError before start."""
        if self._newest_status is None:
            raise _still_loading()
        return self._newest_status

    @property
    def num_open_requests(self) -> int:
        """Requests that have not ended for their callers."""
        return len(self._open)

    def stalled_s(self) -> float:
        """Seconds since the newest step while there is work to do, else 0."""
        status = self.status
        # All the work may be waiting for the adapters that load; then the thread sleeps.
        if not self._open or (status.num_loading_adapters and self._is_asleep):
            return 0.0
        return max(0.0, self._clock() - max(status.last_step_s, self._busy_since_s))

    # The engine's thread.

    def _run(self, doorbell: Doorbell) -> None:
        try:
            steps = self._load()
        except BaseException as error:  # noqa: BLE001 - it goes to whoever awaits start()
            self._call(self._fail_start, error)
            return
        try:
            while not self._is_stopping:
                has_run = steps.step()
                self._publish(steps, doorbell)
                if not has_run:
                    self._sleep(steps)
                self._run_commands(steps)
            self._publish(steps, doorbell)
        except BaseException as error:  # noqa: BLE001 - SystemExit too must end every request
            get_logger().critical(
                "engine_died", error=type(error).__name__, frames=code_places(error)
            )
            self._call(self._die)

    def _load(self) -> EncoderSteps:
        steps = EncoderSteps(self._backend, self._config, self._clock)
        self.max_adapters = steps.slots.max_adapters
        steps.observe = self._observe_step
        self._newest_status = steps.status()
        self._call(self._finish_start)
        return steps

    def _sleep(self, steps: EncoderSteps) -> None:
        self._is_asleep = True
        command = self._commands.get()
        self._is_asleep = False
        command(steps)

    def _run_commands(self, steps: EncoderSteps) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except Empty:
                return
            command(steps)

    def _request_stop(self, steps: EncoderSteps) -> None:
        self._is_stopping = True
        steps.fail_all(ServiceUnavailableError("the worker is shutting down: send it again"))

    def _publish(self, steps: EncoderSteps, doorbell: Doorbell) -> None:
        self._newest_status = steps.status()
        outbox = steps.take_outbox()
        if outbox:
            self._outboxes.append(outbox)
            doorbell.ring()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop has closed under us: nobody is left to be told.
            self._is_stopping = True

    # Back on the event loop.

    def _finish_start(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(None)

    def _fail_start(self, error: BaseException) -> None:
        self._is_dead = True
        if not self._loaded.done():
            self._loaded.set_exception(error)

    def _deliver(self) -> None:
        while self._outboxes:
            self._deliver_one(self._outboxes.popleft())

    def _deliver_one(self, outbox: EncoderOutbox) -> None:
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
        self._is_dead = True
        self._deliver()
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


def _still_loading() -> ServiceUnavailableError:
    return ServiceUnavailableError("the worker is loading its model: try again", retry_after_s=1.0)
