"""Tells one worker how much of itself it may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from edgelora.errors import EdgeLoraError
from edgelora.v1.inference_service_pb2 import SetRunLimitsRequest
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from edgelora.v1.ticket_pb2 import RunLimits
from services.chassis.channel import open_channel, translate_errors
from services.chassis.claims import seal_run_limits
from services.chassis.logs import get_logger
from services.chassis.sealing import Sealer
from services.scheduler.pressure.restrictions import RunShares
from services.scheduler.roster import Worker

_REPEAT_S = 5.0
_ANSWER_S = 2.0
_LIFE_S = 10.0
_PER_SECOND = 1_000_000


class WorkerLimits:
    """Sends the shares when they change, when the worker comes back, and every few seconds."""

    def __init__(self, worker: Worker, sealer: Sealer, clock: Callable[[], float]) -> None:
        self._worker = worker
        self._sealer = sealer
        self._clock = clock
        self._shares = RunShares()
        self._confirmed: RunShares | None = None
        self._generation = 0
        self._is_due = asyncio.Event()

    def set_shares(self, shares: RunShares) -> None:
        """Changes what the worker may use."""
        if shares != self._shares:
            self._shares = shares
            self._is_due.set()

    def note_ready(self, is_ready: bool) -> None:
        """Notes what the worker's health says: one that comes back knows nothing of limits."""
        self._confirmed = None
        if is_ready:
            self._is_due.set()

    async def run(self) -> None:
        """Sends for ever."""
        async with open_channel(self._worker.address) as channel:
            stub = InferenceServiceStub(channel)  # type: ignore[no-untyped-call]
            while True:
                self._is_due.clear()
                if self._worker.is_ready:
                    await self._send(stub)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_REPEAT_S):
                        await self._is_due.wait()

    async def _send(self, stub: Any) -> None:
        shares = self._shares
        request = SetRunLimitsRequest(limits=seal_run_limits(self._sealer, self._message(shares)))
        try:
            with translate_errors():
                limits = await stub.SetRunLimits(request, timeout=_ANSWER_S)
        except EdgeLoraError as error:
            get_logger().warning(
                "run_limits_not_set", worker=self._worker.name, cause=type(error).__name__
            )
            return
        if shares != self._confirmed:
            self._confirmed = shares
            get_logger().info(
                "run_limits_set",
                worker=self._worker.name,
                max_num_seqs=limits.max_num_seqs,
                max_prefill_tokens=limits.max_prefill_tokens,
                num_threads=limits.num_threads,
            )

    def _message(self, shares: RunShares) -> RunLimits:
        now_s = self._clock()
        # From the clock, so that a restarted scheduler's are newer than those of the one before.
        self._generation = max(self._generation + 1, int(now_s * _PER_SECOND))
        return RunLimits(
            worker=self._worker.name,
            seqs_share=shares.seqs,
            prefill_share=shares.prefill,
            threads_share=shares.threads,
            expires_at_boot_s=now_s + _LIFE_S,
            generation=self._generation,
        )
