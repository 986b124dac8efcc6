"""Starts generations, and makes sure that each one ends exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

import structlog

from edgelora.errors import (
    CancelledRequestError,
    DeadlineExceededError,
    EdgeLoraError,
    NotFoundError,
)
from edgelora.v1.adapter_pb2 import AdapterStrength
from edgelora.v1.gateway_service_pb2 import GenerationEvent
from services.gateway.admission import Reservation
from services.gateway.authentication import Caller
from services.gateway.delivery import Delivery
from services.gateway.ended_generation import EndedGeneration, EndObserver
from services.gateway.generation_run import GenerationRequest, GenerationRun
from services.gateway.generation_trace import traced
from services.gateway.last_tasks import LastTasks
from services.gateway.quota import Quota
from services.gateway.upstream import Upstream
from services.gateway.usage import Used


class GenerationStream:
    """The events of one running generation, for one reader."""

    def __init__(
        self, delivery: Delivery[GenerationEvent], task: asyncio.Task[None], run: GenerationRun
    ) -> None:
        self._delivery = delivery
        self._task = task
        self._run = run

    def cancel(self) -> None:
        """Ends the generation, here and at the worker. Afterwards it changes nothing."""
        # A read that is cancelled, and not its call, costs about 150 bytes of gRPC's memory each
        # time (grpc/grpc#43360).
        if self._run.is_reading:
            self._run.stop()
        else:
            self._task.cancel()

    def __aiter__(self) -> AsyncIterator[GenerationEvent]:
        return aiter(self._delivery)

    def bind_log_context(self) -> None:
        """Adds what is known of the generation to the log line of the call."""
        run = self._run
        structlog.contextvars.bind_contextvars(
            adapters=run.adapter_digests,
            degradations=run.degradations,
            queue_ms=_ms(run.queue_s),
            ttft_ms=_ms(run.time_to_first_token_s),
            num_prompt_tokens=run.num_prompt_tokens,
            num_output_tokens=run.num_output_tokens,
        )


class Generations:
    """All running generations. Each lives in a task of its own.

    The call that reads may vanish at any point, even before its handler runs or while a message
    is being sent; what ends a generation is therefore the end of its task, never the reader.
    """

    def __init__(
        self,
        upstream: Upstream,
        quota: Quota,
        *,
        require_active: Callable[[Caller], None],
        stall_s: float,
        observers: Sequence[EndObserver] = (),
    ) -> None:
        self._upstream = upstream
        self._quota = quota
        self._require_active = require_active
        self._stall_s = stall_s
        self._observers = observers
        self._tasks = LastTasks()
        self._running: dict[tuple[str, str], GenerationRun] = {}
        """By tenant and request id."""

    @property
    def num_running(self) -> int:
        """Generations that have not ended."""
        return len(self._running)

    def used(self) -> Iterator[tuple[str, Used]]:
        """Tenant and use so far of every generation that runs."""
        for (tenant_id, _), run in self._running.items():
            yield (
                tenant_id,
                Used(
                    num_requests=1,
                    num_prompt_tokens=run.num_prompt_tokens,
                    num_output_tokens=run.num_output_tokens,
                ),
            )

    def start(
        self, caller: Caller, request: GenerationRequest, *, budget_s: float
    ) -> GenerationStream:
        """Admits a request and starts it; it ends after `budget_s` seconds at the latest.

        Raises QuotaExceededError.
        """
        try:
            reservation = self._quota.admit(caller.tenant, request.reserved_tokens)
        except EdgeLoraError as error:
            self._tell(_refused(caller, request, error))
            raise
        delivery = Delivery[GenerationEvent](stall_s=self._stall_s)
        run = GenerationRun(
            caller,
            request,
            self._upstream,
            require_active=self._require_active,
            emit=delivery.put,
            deadline_s=asyncio.get_running_loop().time() + budget_s,
        )
        task = asyncio.create_task(_run_within(run, budget_s, request, caller.request_id))
        self._tasks.keep(task)
        name = caller.tenant.tenant_id, caller.request_id
        self._running[name] = run
        task.add_done_callback(partial(self._conclude, name, run, delivery, reservation))
        return GenerationStream(delivery, task, run)

    async def set_strength(
        self, caller: Caller, request_id: str, adapter: str, strength: float
    ) -> Sequence[AdapterStrength]:
        """Changes the strength of an adapter of one of the caller's running generations.

        Returns the strengths in force from the next token on. Raises NotFoundError when the caller
        has no such generation running, and what `RunningStrengths.set` raises.
        """
        run = self._running.get((caller.tenant.tenant_id, request_id))
        if run is None:
            raise NotFoundError("no such generation is running: it may have ended")
        return await run.strengths.set(caller, request_id, adapter, strength)

    async def drain(self) -> None:
        """Waits for the last answers and leases; what goes on for longer is cut."""
        await self._tasks.drain()

    def _conclude(
        self,
        name: tuple[str, str],
        run: GenerationRun,
        delivery: Delivery[GenerationEvent],
        reservation: Reservation,
        task: asyncio.Task[None],
    ) -> None:
        run.stop()
        self._running.pop(name, None)
        self._quota.settle(reservation, run.num_prompt_tokens + run.num_output_tokens)
        self._tasks.keep(asyncio.create_task(run.end()))
        error = (
            CancelledRequestError("the request was cancelled")
            if task.cancelled()
            else task.exception()
        )
        delivery.close(error)
        self._tell(run.ended(error))

    def _tell(self, ended: EndedGeneration) -> None:
        for observer in self._observers:
            observer(ended)


def _refused(caller: Caller, request: GenerationRequest, error: EdgeLoraError) -> EndedGeneration:
    return EndedGeneration(
        tenant_id=caller.tenant.tenant_id,
        priority=request.priority,
        adapter_digests=(),
        queue_s=None,
        time_to_first_token_s=None,
        total_s=0.0,
        num_prompt_tokens=0,
        num_output_tokens=0,
        engine_s=0.0,
        degradations=(),
        error=error,
    )


async def _run_within(
    run: GenerationRun, budget_s: float, request: GenerationRequest, request_id: str
) -> None:
    with traced(run, request, request_id):
        try:
            async with asyncio.timeout(budget_s):
                await run.run()
        except TimeoutError:
            raise DeadlineExceededError(
                "the deadline passed before the answer was complete: allow more time, or lower "
                "max_tokens"
            ) from None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
