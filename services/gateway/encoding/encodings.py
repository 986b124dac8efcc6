"""Runs encodings, and makes sure that each one ends exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from edgelora.errors import CancelledRequestError, DeadlineExceededError, EdgeLoraError
from services.gateway.authentication import Caller
from services.gateway.encoding.ended import EndedEncoding, EndObserver
from services.gateway.encoding.request import EncodingRequest
from services.gateway.encoding.run import Encoded, EncodingRun
from services.gateway.encoding.trace import traced
from services.gateway.http.field_names import by_prefix, renamed
from services.gateway.last_tasks import LastTasks
from services.gateway.quota import Quota
from services.gateway.upstream import Upstream

_NAMES = by_prefix({"adapters[0]": "adapter"})
"""The scheduler and the store know the adapter of an encoding as the first of a list."""


class Encodings:
    """All running encodings. Each lives in the call that asks for it, and ends with it."""

    def __init__(
        self,
        upstream: Upstream,
        quota: Quota,
        *,
        require_active: Callable[[Caller], None],
        observers: Sequence[EndObserver] = (),
    ) -> None:
        self._upstream = upstream
        self._quota = quota
        self._require_active = require_active
        self._observers = observers
        self._endings = LastTasks()
        self.num_running = 0
        """Encodings that have not ended."""

    async def run(self, caller: Caller, request: EncodingRequest, *, budget_s: float) -> Encoded:
        """Admits a request and returns its answer, after `budget_s` seconds at the latest.

        Cancelling it cancels everything downstream. Raises QuotaExceededError,
        DeadlineExceededError and what `EncodingRun.run` raises.
        """
        run = EncodingRun(
            caller,
            request,
            self._upstream,
            require_active=self._require_active,
            budget_s=budget_s,
        )
        try:
            reservation = self._quota.admit(caller.tenant, request.reserved_tokens)
        except EdgeLoraError as error:
            self._tell(run.ended(error))
            raise
        self.num_running += 1
        failure: BaseException | None = None
        try:
            with traced(run, request, caller.request_id), renamed(_NAMES):
                return await _within(budget_s, run)
        except asyncio.CancelledError:
            failure = CancelledRequestError("the request was cancelled")
            raise
        except BaseException as error:
            failure = error
            raise
        finally:
            self.num_running -= 1
            self._quota.settle(reservation, run.num_tokens)
            self._endings.keep(asyncio.create_task(run.end()))
            self._tell(run.ended(failure))

    async def drain(self) -> None:
        """Waits for the last leases to be given back."""
        await self._endings.drain()

    def _tell(self, ended: EndedEncoding) -> None:
        for observer in self._observers:
            observer(ended)


async def _within(budget_s: float, run: EncodingRun) -> Encoded:
    try:
        async with asyncio.timeout(budget_s):
            return await run.run()
    except TimeoutError:
        raise DeadlineExceededError(
            "the deadline passed before the texts were encoded: allow more time, or send fewer "
            "texts"
        ) from None
