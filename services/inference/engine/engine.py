"""The engine: a thread runs the steps (step_thread.py), the event loop submits and reads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from edgelora.errors import EdgeLoraError, InternalError
from services.inference.backends.base import Backend
from services.inference.constraints.matcher import TokenConstraint
from services.inference.engine.adapter_loader import AdapterLoader, InlineLoader, LoaderThread
from services.inference.engine.assembly import build_step_loop
from services.inference.engine.config import EngineConfig
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
from services.inference.engine.step_thread import StepThread
from services.inference.engine.token_stream import TokenStream


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
        self._thread: StepThread[StepLoop, Outbox, EngineStatus] = StepThread(
            self._load,
            deliver=self._deliver,
            died=self._die,
            wait_s=self._wait_s,
            close=lambda steps: steps.adapters.close(),
        )
        self._next_id = 0
        self._streams: dict[int, TokenStream] = {}
        self._busy_since_s = clock()
        self.max_adapters = config.limits.max_loras
        """Most adapters one sequence may have."""

    async def start(self, observer: EngineObserver) -> None:
        """Starts the thread and loads the model in it. Raises what loading raises."""
        self._observer = observer
        await self._thread.start()

    async def stop(self) -> None:
        """Ends the thread after the step it is in; streams still open are cut.

        A thread that hangs in the back end is left behind; it ends with the process.
        """
        await self._thread.stop()

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
        self._thread.require_loaded()
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
        if self._thread.is_dead:
            stream.deliver(Failed(InternalError("the engine has stopped")))
            return stream
        if not self._streams:
            self._busy_since_s = self._clock()
        self._next_id += 1
        self._streams[sequence.sequence_id] = stream
        self._thread.commands.put(lambda steps: steps.add(generation))
        return stream

    async def set_strength(
        self, stream: TokenStream, digest: str, weight: float
    ) -> tuple[AdapterUse, ...] | None:
        """Changes the strength (0 to 2) of an adapter of a generation from its next token on.

        Returns the strengths in force; None when it has ended, or has no such adapter. Raises
        ServiceUnavailableError when the engine ends before it answers.
        """
        return await self._thread.ask(
            lambda steps: steps.set_strength(stream.sequence_id, digest, weight)
        )

    async def forget(self, tenant_id: str, session: str) -> int:
        """Drops what is kept of a tenant's session, or of all where it is empty; returns how many.

        Raises ServiceUnavailableError as `set_strength` does.
        """
        return await self._thread.ask(lambda steps: steps.forget(tenant_id, session))

    def adapter_ready(self, digest: str, fetched: FetchedAdapter) -> None:
        """Answers `adapter_wanted`."""
        self._thread.commands.put(lambda steps: steps.adapters.load(digest, fetched))

    def warm_up(self, digest: str, evict_digest: str | None, fetched: FetchedAdapter) -> None:
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
        self._thread.commands.put(lambda steps: steps.set_deleted(digests))

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Says which adapters leave their slots last."""
        self._thread.commands.put(lambda steps: steps.adapters.set_pinned(digests))

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
        self._thread.commands.put(lambda steps: steps.limit(limits))
        return limits

    @property
    def status(self) -> EngineStatus:
        """The newest snapshot, taken after a step. Raises ServiceUnavailableError before start."""
        return self._thread.status

    @property
    def num_open_streams(self) -> int:
        """Streams nobody has closed yet."""
        return len(self._streams)

    def stalled_s(self) -> float:
        """Seconds since the newest step while there is work to do, else 0."""
        status = self.status
        # All the work may be waiting for the adapters that load; then the thread sleeps.
        if not self._streams or (status.num_loading_adapters and self._thread.is_asleep):
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
            self._thread.commands.put(lambda steps: steps.cancel(sequence_id))

    # The engine's thread.

    def _wait_s(self, steps: StepLoop) -> float | None:
        """Until a session gets too old."""
        wait_s = max(0.0, steps.next_expiry_s - self._clock())
        return None if math.isinf(wait_s) else wait_s

    def _load(self) -> StepLoop:
        steps, slots = build_step_loop(self._backend, self._config, self._make_loader, self._clock)
        self.max_adapters = slots.max_adapters
        steps.observe = self._observe_step
        return steps

    def _make_loader(self) -> AdapterLoader:
        if self._backend.loads_beside_forward:
            return LoaderThread(
                self._backend, lambda done: self._thread.commands.put(lambda _: done())
            )
        return InlineLoader(self._backend)

    # Back on the event loop.

    def _deliver(self, outbox: Outbox) -> None:
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
        for stream in self._streams.values():
            stream.deliver(Failed(InternalError("the engine has stopped: send the request again")))
        self._observer.engine_died()
