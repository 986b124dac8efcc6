"""Tells the adapter store what is in the slots: on every change, and every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import grpc

from edgelora.errors import EdgeLoraError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import LoadStages
from edgelora.v1.adapter_store_service_pb2 import (
    EvictedAdapter,
    RefusedAdapter,
    ReportResidencyRequest,
    ResidentAdapter,
    WarmUp,
)
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.encoding_pb2 import Task
from services.chassis.channel import translate_errors
from services.chassis.logs import get_logger
from services.inference.engine.fetched_adapter import FinishedLoad
from services.inference.refusals import Refusals
from services.inference.residency_events import ResidencyEvents
from services.inference.slot_engine import ReportedEngine

_TIMEOUT_S = 2.0


class ResidencyReporter:
    """Sends the whole state each time, and what has happened until it was answered once."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        engine: ReportedEngine,
        refusals: Refusals,
        events: ResidencyEvents,
        *,
        worker: str,
        task: Task,
        interval_s: float,
        on_warm_ups: Callable[[Sequence[WarmUp]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stub = AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._engine = engine
        self._refusals = refusals
        self._events = events
        self._on_warm_ups = on_warm_ups
        self._worker = worker
        self._task = task
        self._interval_s = interval_s
        self._clock = clock
        # Grows with each new process of the node: the store refuses the smaller of two.
        self._incarnation = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._changed = asyncio.Event()
        self._is_store_reachable = True

    def note_change(self) -> None:
        """Reports soon."""
        self._changed.set()

    async def run(self) -> None:
        """Reports for ever. A store that does not answer is asked again at the next turn."""
        while True:
            self._changed.clear()
            await self._report()
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _report(self) -> None:
        try:
            with translate_errors():
                response = await self._stub.ReportResidency(self._request(), timeout=_TIMEOUT_S)
        except EdgeLoraError as error:
            if self._is_store_reachable:
                get_logger().warning("residency_not_reported", error=type(error).__name__)
            self._is_store_reachable = False
            return
        self._is_store_reachable = True
        self._events.mark_counted()
        self._engine.set_deleted(frozenset(response.deleted_digests))
        self._engine.set_pinned(frozenset(response.pinned_digests))
        self._on_warm_ups(response.warm_ups)

    def _request(self) -> ReportResidencyRequest:
        status, now_s = self._engine.status, self._clock()
        batch = self._events.take(status.num_slot_waits)
        return ReportResidencyRequest(
            worker=self._worker,
            adapters=[
                ResidentAdapter(
                    digest=slot.digest,
                    num_references=slot.num_references,
                    idle_s=0.0 if slot.num_references else max(0.0, now_s - slot.last_used_s),
                    is_loading=slot.is_loading,
                    size_bytes=slot.size_bytes,
                )
                for slot in status.slots
            ],
            num_slots=status.num_adapter_slots,
            refused=[
                RefusedAdapter(digest=digest, reason=error.message)
                for digest, error in self._refusals.current(now_s).items()
            ],
            incarnation=self._incarnation,
            loads=[_to_load(load) for load in batch.loads],
            evictions=[
                EvictedAdapter(digest=each.digest, was_wasted=each.was_wasted)
                for each in batch.evictions
            ],
            num_slot_waits=batch.num_slot_waits,
            memory_bytes=status.adapter_bytes,
            memory_budget_bytes=status.adapter_budget_bytes,
            sequence=batch.sequence,
            task=self._task,
        )


def _to_load(load: FinishedLoad) -> pb.FinishedLoad:
    return pb.FinishedLoad(
        digest=load.digest,
        is_warm_up=load.is_warm_up,
        bytes_read=load.cost.bytes_read,
        stages=LoadStages(
            remote_s=load.cost.remote_s,
            fetch_s=load.cost.fetch_s,
            check_s=load.cost.check_s,
            decode_s=load.decode_s,
            prove_s=load.prove_s,
        ),
    )
