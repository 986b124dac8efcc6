"""The engine: one thread runs the steps, the event loop submits and reads.

The event loop talks to the thread through a queue of commands; the thread answers through a
queue of outboxes and a doorbell, once a step. With nothing to run it blocks on its queue.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from edgelora.errors import EdgeLoraError, InternalError, ServiceUnavailableError
from services.chassis.logs import code_places, get_logger
from services.inference.backends.base import Backend
from services.inference.constraints.matcher import TokenConstraint
from services.inference.engine.adapter_loader import AdapterLoader, InlineLoader, LoaderThread
from services.inference.engine.answers import Answers, AnswerT
from services.inference.engine.assembly import build_step_loop
from services.inference.engine.config import EngineConfig
from services.inference.engine.doorbell import Doorbell
from services.inference.engine.events import Failed
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine.generation import Generation
from services.inference.engine.observer import EngineObserver
from services.inference.engine.outbox import Outbox
from services.inference.engine.run_limits import RunLimits
from services.inference.engine.sequence import (
    AdapterUse,
    Priority,
    SamplingParams,
    Sequence,
    StopConditions,
)
from services.inference.engine.status import EngineStatus
from services.inference.engine.step_loop import StepLoop, StepObserver
from services.inference.engine.token_stream import TokenStream

_STOP_LIMIT_S = 5.0


class Engine:
    """Runs sequences on a back end. All public methods belong to the event loop's thread."""

    def __init__(
        self,
        backend: Backend,
        config: EngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        observe_step: StepObserver | None = None,
    ) -> None:
        self._backend = backend
        self._config = config
        self._num_threads = backend.num_threads
        self._clock = clock
        self._observe_step = observe_step
        self._commands: SimpleQueue[Callable[[StepLoop], None]] = SimpleQueue()
        self._outboxes: deque[Outbox] = deque()
        self._doorbell: Doorbell | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_dead = False
        self._is_asleep = False
        self._next_id = 0
        self._streams: dict[int, TokenStream] = {}
        self._answers = Answers()
        self._busy_since_s = clock()
        self._newest_status: EngineStatus | None = None
        self.max_adapters = config.limits.max_loras
        """Most adapters one sequence may have."""

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
        """Ends the thread after the step it is in; streams still open are cut.

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
        self._answers.close()

    def submit(
        self,
        token_ids: list[int],
        *,
        ticket: object = None,
        sampling: SamplingParams | None = None,
        stop: StopConditions | None = None,
        num_top_logprobs: int | None = None,
        priority: Priority = Priority.INTERACTIVE,
        adapters: tuple[AdapterUse, ...] = (),
        tenant_id: str | None = None,
        session: str = "",
        constraint: TokenConstraint | None = None,
        arrived_s: float | None = None,
    ) -> TokenStream:
        """Queues a sequence and returns its stream; the caller closes it in the same scope.

        `ticket` comes back in `adapter_wanted`. Only sequences of one `tenant_id` share KV blocks
        (it must come from a sealed ticket), those with None share none. `session` is the tenant's
        name of the conversation whose blocks are held after a whole answer, empty for none.
        `constraint` is this sequence's own. `arrived_s` is the clock's time times count from.
        Raises ServiceUnavailableError before the model is loaded, and ValueError when the sequence
        could never run: prompt and max_tokens together beyond `EngineConfig.capacity_tokens`, an
        adapter twice, more adapters than slots.
        """
        if self._newest_status is None:
            raise _still_loading()
        sequence = Sequence(
            sequence_id=self._next_id,
            token_ids=token_ids,
            sampling=sampling or SamplingParams(),
            stop=stop or StopConditions(),
            num_top_logprobs=num_top_logprobs,
            priority=priority,
            adapters=adapters,
            tenant_id=tenant_id,
            session=session,
        )
        self._check_fits(sequence)
        generation = Generation(
            sequence,
            ticket=ticket,
            token_bytes=self._config.token_bytes,
            eos_token_ids=self._config.eos_token_ids,
            arrived_s=self._clock() if arrived_s is None else arrived_s,
            constraint=constraint,
        )
        stream = TokenStream(partial(self._close, sequence.sequence_id), sequence.sequence_id)
        if self._is_dead:
            stream.deliver(Failed(InternalError("the engine has stopped")))
            return stream
        if not self._streams:
            self._busy_since_s = self._clock()
        self._next_id += 1
        self._streams[sequence.sequence_id] = stream
        self._commands.put(lambda steps: steps.add(generation))
        return stream

    async def set_strength(
        self, stream: TokenStream, digest: str, weight: float
    ) -> tuple[AdapterUse, ...] | None:
        """Changes the strength (0 to 2) of an adapter of a generation from its next token on.

        Returns the strengths in force; None when it has ended, or has no such adapter. Raises
        ServiceUnavailableError when the engine ends before it answers.
        """
        return await self._ask(lambda steps: steps.set_strength(stream.sequence_id, digest, weight))

    async def forget(self, tenant_id: str, session: str) -> int:
        """Drops what is kept of a tenant's session, or of all where it is empty; returns how many.

        Raises ServiceUnavailableError as `set_strength` does.
        """
        return await self._ask(lambda steps: steps.forget(tenant_id, session))

    def adapter_ready(self, digest: str, fetched: FetchedAdapter) -> None:
        """Answers `adapter_wanted`."""
        self._commands.put(lambda steps: steps.adapters.load(digest, fetched))

    def warm_up(self, digest: str, evict_digest: str | None, fetched: FetchedAdapter) -> None:
        """Has an adapter put into a slot ahead of use, if there is one that nobody needs.

        `evict_digest` may go for it while it is idle.
        """
        self._commands.put(lambda steps: steps.adapters.warm_up(digest, evict_digest, fetched))

    def adapter_failed(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Answers `adapter_wanted` when the adapter could not be had with that ticket."""
        self._commands.put(lambda steps: steps.adapters.give_up(digest, ticket, error))

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Says which adapters are gone from the registry: they leave their slots when unused."""
        self._commands.put(lambda steps: steps.set_deleted(digests))

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Says which adapters leave their slots last."""
        self._commands.put(lambda steps: steps.adapters.set_pinned(digests))

    def limit(self, *, seqs: float, prefill: float, threads: float) -> RunLimits:
        """Sets what is used from the next step on, as shares of what the engine was built with.

        Each is above 0 to 1; returns what they come to. Sequences of the lower classes that no
        longer have a seat are paused, the youngest of the lowest class first; interactive ones
        keep theirs to their end.
        """
        whole = RunLimits(
            max_num_seqs=self._config.step.max_num_seqs,
            max_prefill_tokens=self._config.step.max_num_batched_tokens,
            num_threads=self._num_threads,
        )
        limits = whole.reduced(seqs=seqs, prefill=prefill, threads=threads)
        self._commands.put(lambda steps: steps.limit(limits))
        return limits

    @property
    def status(self) -> EngineStatus:
        """The newest snapshot, taken after a step. Raises ServiceUnavailableError before start."""
        status = self._newest_status
        if status is None:
            raise _still_loading()
        return status

    @property
    def num_open_streams(self) -> int:
        """Streams nobody has closed yet."""
        return len(self._streams)

    def stalled_s(self) -> float:
        """Seconds since the newest step while there is work to do, else 0."""
        status = self.status
        # All the work may be waiting for the adapters that load; then the thread sleeps.
        if not self._streams or (status.num_loading_adapters and self._is_asleep):
            return 0.0
        return max(0.0, self._clock() - max(status.last_step_s, self._busy_since_s))

    def _check_fits(self, sequence: Sequence) -> None:
        num_tokens = sequence.num_prompt_tokens + sequence.stop.max_tokens
        if not sequence.token_ids or num_tokens > self._config.capacity_tokens:
            raise ValueError("the sequence is empty or does not fit into the KV cache")
        num_adapters = len(sequence.adapters)
        if len(set(sequence.digests)) != num_adapters:
            raise ValueError("an adapter is named twice")
        if num_adapters > self.max_adapters:
            raise ValueError("the sequence has more adapters than there are slots")

    def _close(self, sequence_id: int) -> None:
        if self._streams.pop(sequence_id, None) is not None:
            self._commands.put(lambda steps: steps.cancel(sequence_id))

    async def _ask(self, question: Callable[[StepLoop], AnswerT]) -> AnswerT:
        """Lets the thread answer between two steps."""
        if self._newest_status is None:
            raise _still_loading()

        def answer(steps: StepLoop, take: Callable[[AnswerT], None]) -> None:
            found = question(steps)
            # Whoever has the answer sees what it changed.
            self._newest_status = steps.status()
            self._call(take, found)

        def ask(take: Callable[[AnswerT], None]) -> None:
            self._commands.put(lambda steps: answer(steps, take))

        return await self._answers.wait_for(ask)

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
        except BaseException as error:  # noqa: BLE001 - SystemExit too must end every stream
            get_logger().critical(
                "engine_died", error=type(error).__name__, frames=code_places(error)
            )
            self._call(self._die)
        finally:
            steps.adapters.close()

    def _sleep(self, steps: StepLoop) -> None:
        """Runs the next command when it comes, or returns when a session gets too old."""
        wait_s = max(0.0, steps.next_expiry_s - self._clock())
        self._is_asleep = True
        try:
            command = self._commands.get(timeout=None if math.isinf(wait_s) else wait_s)
        except Empty:
            return
        finally:
            self._is_asleep = False
        command(steps)

    def _load(self) -> StepLoop:
        steps, slots = build_step_loop(self._backend, self._config, self._make_loader, self._clock)
        self.max_adapters = slots.max_adapters
        steps.observe = self._observe_step
        self._newest_status = steps.status()
        self._call(self._finish_start)
        return steps

    def _make_loader(self) -> AdapterLoader:
        if self._backend.loads_beside_forward:
            return LoaderThread(self._backend, lambda done: self._commands.put(lambda _: done()))
        return InlineLoader(self._backend)

    def _run_commands(self, steps: StepLoop) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except Empty:
                return
            command(steps)

    def _request_stop(self, steps: StepLoop) -> None:
        self._is_stopping = True
        steps.fail_all(ServiceUnavailableError("the worker is shutting down: send it again"))

    def _publish(self, steps: StepLoop, doorbell: Doorbell) -> None:
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

    def _deliver_one(self, outbox: Outbox) -> None:
        for sequence_id, event in outbox.events:
            stream = self._streams.get(sequence_id)
            if stream is not None:
                stream.deliver(event)
        for wanted in outbox.wanted:
            self._observer.adapter_wanted(wanted.digest, wanted.ticket)
        for digest, error in outbox.refused:
            self._observer.adapter_refused(digest, error)
        if outbox.is_residency_changed:
            self._observer.residency_changed(outbox.loads, outbox.evictions)

    def _die(self) -> None:
        self._is_dead = True
        self._answers.close()
        self._deliver()
        for stream in self._streams.values():
            stream.deliver(Failed(InternalError("the engine has stopped: send the request again")))
        self._observer.engine_died()


def _still_loading() -> ServiceUnavailableError:
    return ServiceUnavailableError("the worker is loading its model: try again", retry_after_s=1.0)
