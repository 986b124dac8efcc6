"""Relays installations from a remote: progress while the package comes, then what was registered.

Each lives in a task of its own. The call that reads may vanish at any point, even while a message
is being sent; what ends an installation is therefore the end of its task, never the reader.
"""

from __future__ import annotations

import asyncio

from edgelora.errors import CancelledRequestError, DeadlineExceededError, InternalError
from edgelora.v1 import adapter_store_service_pb2 as store_pb
from edgelora.v1 import gateway_service_pb2 as pb
from services.chassis.channel import call_metadata
from services.gateway.authentication import Caller
from services.gateway.delivery import Delivery
from services.gateway.quota import Quota
from services.gateway.upload import to_registered
from services.gateway.upstream import Upstream, errors_of

_DRAIN_S = 5.0


class Installation:
    """One running installation, for one reader."""

    def __init__(
        self, delivery: Delivery[pb.InstallAdapterResponse], task: asyncio.Task[None]
    ) -> None:
        self.events = delivery
        self._task = task

    def cancel(self) -> None:
        """Ends it, here and at the store. Afterwards it changes nothing."""
        self._task.cancel()


class Installations:
    """Starts installations; each counts as one of its tenant's running requests."""

    def __init__(self, upstream: Upstream, quota: Quota, *, stall_s: float) -> None:
        self._upstream = upstream
        self._quota = quota
        self._stall_s = stall_s
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self, caller: Caller, request: pb.InstallAdapterRequest, *, budget_s: float
    ) -> Installation:
        """Admits an installation; it ends after `budget_s` seconds at the latest.

        Raises QuotaExceededError.
        """
        reservation = self._quota.admit(caller.tenant, reserved_tokens=0)
        delivery = Delivery[pb.InstallAdapterResponse](stall_s=self._stall_s)
        task = asyncio.create_task(self._relay_within(budget_s, caller, request, delivery))

        def conclude(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._quota.settle(reservation, used_tokens=0)
            if task.cancelled():
                delivery.close(CancelledRequestError("the request was cancelled"))
            else:
                delivery.close(task.exception())

        self._tasks.add(task)
        task.add_done_callback(conclude)
        return Installation(delivery, task)

    async def drain(self) -> None:
        """Waits for the last ones to end."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_DRAIN_S)

    async def _relay_within(
        self,
        budget_s: float,
        caller: Caller,
        request: pb.InstallAdapterRequest,
        delivery: Delivery[pb.InstallAdapterResponse],
    ) -> None:
        try:
            async with asyncio.timeout(budget_s):
                await self._relay(budget_s, caller, request, delivery)
        except TimeoutError:
            raise DeadlineExceededError(
                "the deadline passed before the adapter was installed: install it again with more "
                "time"
            ) from None

    async def _relay(
        self,
        budget_s: float,
        caller: Caller,
        request: pb.InstallAdapterRequest,
        delivery: Delivery[pb.InstallAdapterResponse],
    ) -> None:
        store = await self._upstream.store()
        call = store.InstallAdapter(
            _store_request(request, caller), timeout=budget_s, metadata=call_metadata()
        )
        is_registered = False
        try:
            with errors_of("adapter store"):
                async for event in call:
                    if event.WhichOneof("event") == "registered":
                        is_registered = True
                        registered = to_registered(event.registered)
                        await delivery.put(pb.InstallAdapterResponse(registered=registered))
                    else:
                        await delivery.put(pb.InstallAdapterResponse(progress=event.progress))
        finally:
            call.cancel()
        if not is_registered:
            raise InternalError("the adapter store ended an installation without a result")


def _store_request(
    request: pb.InstallAdapterRequest, caller: Caller
) -> store_pb.AdapterStoreServiceInstallAdapterRequest:
    wanted = store_pb.AdapterStoreServiceInstallAdapterRequest(
        claim=caller.claim,
        package=request.package,
        alias=request.alias,
        description=request.description,
        replace_alias=request.replace_alias,
    )
    if request.HasField("expected_generation"):
        wanted.expected_generation = request.expected_generation
    return wanted
