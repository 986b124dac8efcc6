"""Tickets from a real scheduler process: claims, adapters, leases."""

from __future__ import annotations

import grpc
import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    InvalidRequestError,
    ServiceUnavailableError,
    TicketExpiredError,
    UnauthenticatedError,
)
from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import PriorityClass
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import translate_errors
from services.chassis.claims import open_ticket, seal_claim
from services.chassis.sealing import Sealer, boot_clock_s

pytestmark = pytest.mark.integration


async def test_a_ticket_names_worker_tenant_and_adapters(bench):
    await bench.start_store()
    digest = await bench.register("acme", "mail")
    await bench.start_worker("w0")
    await bench.start()
    selection = AdapterSelection(adapter="mail", strength=0.5)
    call = bench.stub.Acquire(
        bench.request(
            request_id="r7",
            adapters=[selection],
            priority=PriorityClass.PRIORITY_CLASS_BATCH,
            max_output_tokens=77,
        )
    )
    queued, granted = [event async for event in call]
    assert queued.queued.position == 0
    assert queued.queued.adapters[0].digest == digest

    grant = granted.granted
    ticket = open_ticket(bench.sealer, grant.ticket, boot_clock_s())
    assert ticket.ticket_id == grant.ticket_id
    assert (ticket.tenant_id, ticket.request_id, ticket.worker) == ("acme", "r7", "w0")
    assert ticket.adapters == queued.queued.adapters
    assert ticket.adapters[0].strength == 0.5
    assert ticket.priority == PriorityClass.PRIORITY_CLASS_BATCH
    assert ticket.max_output_tokens == 77
    assert grant.worker_address == bench.address("w0")
    assert grant.lease.ToSeconds() == 10
    assert ticket.expires_at_boot_s > boot_clock_s() + grant.lease.ToSeconds()


async def test_the_base_model_needs_no_store(bench):
    await bench.start_worker("w0")
    await bench.start()
    ticket = open_ticket(bench.sealer, (await bench.acquire()).ticket, boot_clock_s())
    assert list(ticket.adapters) == []
    selection = AdapterSelection(adapter="mail")
    with pytest.raises(ServiceUnavailableError, match="store does not answer"), translate_errors():
        await bench.acquire(adapters=[selection])
    assert (await bench.queues()).queues[0].num_waiting == 0


async def test_unknown_and_foreign_adapters_are_the_stores_own_error(bench):
    await bench.start_store()
    await bench.register("acme", "mail")
    await bench.start_worker("w0")
    await bench.start()
    answers = set()
    for tenant_id, adapter in (("other", "mail"), ("acme", "nothing")):
        with pytest.raises(AdapterNotFoundError) as caught, translate_errors():
            await bench.acquire(tenant_id, adapters=[AdapterSelection(adapter=adapter)])
        answers.add((str(caught.value), caught.value.field))
    assert len(answers) == 1
    assert all(queue.num_running == 0 for queue in (await bench.queues()).queues)


async def test_forged_expired_and_missing_claims_are_refused_everywhere(bench):
    await bench.start_worker("w0")
    await bench.start()
    granted = await bench.acquire()
    forged = seal_claim(
        Sealer(b"another key of at least 32 bytes"),
        tenant_id="acme",
        request_id="r",
        expires_at_boot_s=boot_clock_s() + 60,
    )
    for claim in (forged, bench.claim(ttl_s=-1), Sealed(), granted.ticket):
        calls = [
            bench.stub.Renew(pb.RenewRequest(ticket_id=granted.ticket_id, claim=claim)),
            bench.stub.Release(pb.ReleaseRequest(ticket_id=granted.ticket_id, claim=claim)),
            bench.stub.Cancel(pb.CancelRequest(request_id="r", claim=claim)),
            bench.stub.Acquire(bench.request(claim=claim)).read(),
        ]
        for call in calls:
            with pytest.raises(UnauthenticatedError), translate_errors():
                await call
    assert (await bench.queues()).workers[0].num_running == 1


@pytest.mark.parametrize(
    ("field", "value"), [("estimated_tokens", 0), ("max_output_tokens", 0), ("priority", 17)]
)
async def test_bad_fields_are_named(bench, field, value):
    await bench.start_worker("w0")
    await bench.start()
    with pytest.raises(InvalidRequestError) as caught, translate_errors():
        await bench.acquire(**{field: value})
    assert caught.value.field == field


async def test_another_tenant_can_not_touch_a_lease(bench):
    await bench.start_worker("w0")
    await bench.start()
    granted = await bench.acquire("acme")
    with pytest.raises(TicketExpiredError), translate_errors():
        await bench.stub.Renew(
            pb.RenewRequest(ticket_id=granted.ticket_id, claim=bench.claim("mallory"))
        )
    await bench.release(granted, "mallory")
    assert (await bench.queues()).workers[0].num_running == 1
    response = await bench.stub.Renew(
        pb.RenewRequest(ticket_id=granted.ticket_id, claim=bench.claim("acme"))
    )
    assert response.lease.ToSeconds() == 10
    await bench.release(granted, "acme")
    assert (await bench.queues()).workers[0].num_running == 0
    await bench.release(granted, "acme")


async def test_an_expired_lease_frees_its_place_for_the_next(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1", LEASE="300ms")
    first = await bench.acquire()
    second = await bench.acquire()
    assert first.ticket_id != second.ticket_id
    with pytest.raises(TicketExpiredError), translate_errors():
        await bench.stub.Renew(pb.RenewRequest(ticket_id=first.ticket_id, claim=bench.claim()))
    assert bench.process.log("lease_expired")[0]["ticket_id"] == first.ticket_id


async def test_the_log_has_one_line_for_each_call_without_user_text(bench):
    await bench.start_store()
    digest = await bench.register("acme", "mail")
    await bench.start_worker("w0")
    await bench.start()
    await bench.acquire(request_id="r9", adapters=[AdapterSelection(adapter="mail")])
    with pytest.raises(grpc.aio.AioRpcError):
        await bench.acquire(adapters=[AdapterSelection(adapter="s3cret words")])
    await bench.queues()
    granted, refused = (
        line for line in bench.process.log("rpc_finished") if line["rpc"].endswith("/Acquire")
    )
    assert (granted["tenant_id"], granted["request_id"]) == ("acme", "r9")
    assert (granted["code"], granted["worker"], granted["adapters"]) == ("OK", "w0", [digest])
    assert granted["queue_ms"] >= 0
    assert refused["code"] == "NOT_FOUND"
    assert "s3cret" not in str(refused)
