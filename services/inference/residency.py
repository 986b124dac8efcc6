"""Tells the adapter store what is in the slots: on every change, and every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import grpc

from edgelora.errors import EdgeLoraError
from edgelora.v1.adapter_store_service_pb2 import (
    RefusedAdapter,
    ReportResidencyRequest,
    ResidentAdapter,
)
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from services.chassis.channel import translate_errors
from services.chassis.logs import get_logger
from services.inference.engine.engine import Engine
from services.inference.refusals import Refusals

_TIMEOUT_S = 2.0


class ResidencyReporter:
    """Sends the whole state each time, so that a lost report costs nothing."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        engine: Engine,
        refusals: Refusals,
        *,
        worker: str,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stub = AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._engine = engine
        self._refusals = refusals
        self._worker = worker
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
        self._engine.set_deleted(frozenset(response.deleted_digests))

    def _request(self) -> ReportResidencyRequest:
        status, now_s = self._engine.status, self._clock()
        return ReportResidencyRequest(
            worker=self._worker,
            adapters=[
                ResidentAdapter(
                    digest=slot.digest,
                    num_references=slot.num_references,
                    idle_s=0.0 if slot.num_references else max(0.0, now_s - slot.last_used_s),
                    is_loading=slot.is_loading,
                )
                for slot in status.slots
            ],
            num_slots=status.num_adapter_slots,
            refused=[
                RefusedAdapter(digest=digest, reason=error.message)
                for digest, error in self._refusals.current(now_s).items()
            ],
            incarnation=self._incarnation,
        )
