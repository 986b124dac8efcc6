"""The dispatcher wakes waiting calls, and no way of leaving costs a place."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import (
    CancelledRequestError,
    ServiceUnavailableError,
    TicketExpiredError,
)
from services.scheduler.dispatcher import Dispatcher
from services.scheduler.request import Priority
from tests.support.fake_clock import FakeClock
from tests.support.schedules import make_request, make_schedule


class Bench:
    """A dispatcher with a fake clock; `advance` is called by hand."""

    def __init__(self, **schedule):
        self.clock = FakeClock(0.0)
        self.schedule = make_schedule(**schedule)
        self.dispatcher = Dispatcher(self.schedule, self.clock)

    def submit(self, **changes):
        request = make_request(**changes)
        self.dispatcher.submit(request)
        self.dispatcher.advance()
        return request

    async def grant(self, **changes):
        request = self.submit(**changes)
        lease = await self.dispatcher.wait(request)
        self.dispatcher.leave(request, was_delivered=True)
        return lease

    @property
    def num_running(self):
        return len(self.schedule.leases)


async def test_a_release_wakes_the_next_call():
    bench = Bench(max_running=1)
    first = await bench.grant()
    second = bench.submit()
    call = asyncio.create_task(bench.dispatcher.wait(second))
    assert bench.dispatcher.release(first.request.ticket_id, "acme", 10)
    bench.dispatcher.advance()
    assert (await call).request == second


async def test_an_expired_lease_wakes_the_next_call():
    bench = Bench(max_running=1, lease_s=30.0)
    await bench.grant()
    second = bench.submit()
    bench.clock.advance(30.0)
    bench.dispatcher.advance()
    assert (await bench.dispatcher.wait(second)).request == second
    assert bench.num_running == 1


async def test_leaving_while_waiting_leaves_the_queue():
    bench = Bench(max_running=1)
    await bench.grant()
    waiting = bench.submit()
    bench.dispatcher.leave(waiting, was_delivered=False)
    assert len(bench.schedule.queue) == 0


async def test_a_grant_nobody_got_gives_its_place_back_uncharged():
    bench = Bench(max_running=1)
    request = bench.submit()
    assert bench.num_running == 1
    bench.dispatcher.leave(request, was_delivered=False)
    assert bench.num_running == 0
    assert bench.schedule.queue.served_tokens(Priority.INTERACTIVE, "acme") == 0


async def test_a_delivered_grant_keeps_its_place_when_the_call_ends():
    bench = Bench(max_running=1)
    lease = await bench.grant()
    bench.dispatcher.leave(lease.request, was_delivered=False)
    assert bench.num_running == 1


async def test_cancel_ends_the_waiting_call_of_its_own_tenant_only():
    bench = Bench(max_running=1)
    await bench.grant()
    waiting = bench.submit(tenant_id="acme", request_id="r1")
    assert not bench.dispatcher.cancel("mallory", "r1")
    assert bench.dispatcher.cancel("acme", "r1")
    with pytest.raises(CancelledRequestError):
        await bench.dispatcher.wait(waiting)
    assert not bench.dispatcher.cancel("acme", "r1")


async def test_stranded_requests_are_refused():
    bench = Bench(are_ready=False, no_worker_limit_s=5.0)
    waiting = bench.submit()
    bench.clock.advance(5.0)
    bench.dispatcher.advance()
    with pytest.raises(ServiceUnavailableError, match="no worker that does this is ready"):
        await bench.dispatcher.wait(waiting)
    assert len(bench.schedule.queue) == 0


async def test_requests_wait_for_a_worker_within_the_limit():
    bench = Bench(are_ready=False)
    waiting = bench.submit()
    bench.clock.advance(4.0)
    bench.dispatcher.set_ready("w0", True)
    bench.dispatcher.advance()
    assert (await bench.dispatcher.wait(waiting)).worker == "w0"


async def test_renewing_a_foreign_or_unknown_lease_is_the_same_error():
    bench = Bench()
    lease = await bench.grant(tenant_id="acme")
    messages = set()
    for ticket_id, tenant_id in ((lease.request.ticket_id, "mallory"), ("nothing", "acme")):
        with pytest.raises(TicketExpiredError) as caught:
            bench.dispatcher.renew(ticket_id, tenant_id)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert bench.dispatcher.renew(lease.request.ticket_id, "acme").worker == "w0"


async def test_stopping_ends_unstarted_requests_and_leaves_running_ones_F02():
    bench = Bench(max_running=1)
    await bench.grant()
    waiting = bench.submit()
    bench.dispatcher.refuse_all(ServiceUnavailableError("stopping", retry_after_s=1.0))
    with pytest.raises(ServiceUnavailableError):
        await bench.dispatcher.wait(waiting)
    assert bench.num_running == 1


async def test_run_advances_by_itself():
    bench = Bench(max_running=1)
    loop_task = asyncio.create_task(bench.dispatcher.run())
    request = make_request()
    bench.dispatcher.submit(request)
    lease = await bench.dispatcher.wait(request)
    second = make_request()
    bench.dispatcher.submit(second)
    bench.dispatcher.release(lease.request.ticket_id, "acme", 1)
    assert (await bench.dispatcher.wait(second)).request == second
    loop_task.cancel()
