"""Strengths of running generations, and sessions, through a real gateway and scheduler."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing

import pytest

from edgelora.errors import InvalidRequestError, NotFoundError, ServiceUnavailableError
from edgelora.generation import Accepted, Delta
from services.chassis.claims import open_claim
from services.chassis.sealing import boot_clock_s

pytestmark = pytest.mark.integration

ONE, TWO = ("sha256:" + letter * 64 for letter in "ab")


async def until(events, kind):
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError("the stream ended")


async def running(gateway, client, adapters):
    """A stream whose worker waits, and the id of its request."""
    gateway.worker.hold_after = 1
    events = client.generate("Dear Ann,", adapters=adapters)
    request_id = (await until(events, Accepted)).request_id
    await until(events, Delta)
    return events, request_id


async def test_a_change_reaches_the_worker_that_runs_it_with_the_callers_claim(gateway):
    gateway.store.digests["acme", "mail"] = ONE
    client = await gateway.client()
    events, request_id = await running(gateway, client, {"mail": 0.5})
    async with aclosing(events):
        for name in ("mail", ONE, ""):
            assert await client.set_strength(request_id, 0.25, adapter=name) == {ONE: 0.25}
    assert len(gateway.worker.strengths) == 3
    for request in gateway.worker.strengths:
        claim = open_claim(gateway.sealer, request.claim, boot_clock_s())
        assert claim.tenant_id == "acme"
        assert (request.request_id, request.adapter) == (request_id, ONE)
        assert request.strength == 0.25
    await gateway.wait_until_idle()


async def test_of_several_adapters_one_is_named(gateway):
    gateway.store.digests["acme", "mail"] = ONE
    gateway.store.digests["acme", "home"] = TWO
    client = await gateway.client()
    events, request_id = await running(gateway, client, ["mail", "home"])
    async with aclosing(events):
        assert await client.set_strength(request_id, 2.0, adapter="home") == {TWO: 2.0}
        for name in ("", "else", "sha256:" + "c" * 64):
            with pytest.raises(InvalidRequestError) as caught:
                await client.set_strength(request_id, 1.0, adapter=name)
            assert caught.value.field == "adapter"
    assert len(gateway.worker.strengths) == 1


async def test_a_change_that_comes_before_the_ticket_goes_with_the_request(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(MAX_RUNNING_PER_WORKER="1")
    await bench.start_gateway()
    bench.store.digests["acme", "mail"] = ONE
    client = await bench.client()
    first, _ = await running(bench, client, {"mail": 1.0})
    waiting = client.generate("Dear Bob,", adapters={"mail": 1.0})
    request_id = (await until(waiting, Accepted)).request_id
    assert await client.set_strength(request_id, 0.5) == {ONE: 0.5}
    assert await client.set_strength(request_id, 0.75, adapter="mail") == {ONE: 0.75}
    bench.worker.go_on.set()
    for events in (first, waiting):
        async for _ in events:
            pass
    calls = [bench.worker.calls.get_nowait() for _ in range(2)]
    sent = [[(each.digest, each.strength) for each in call.request.strengths] for call in calls]
    assert sent == [[], [(ONE, 0.75)]]
    assert bench.worker.strengths == []


async def test_unknown_foreign_and_ended_are_the_same_to_whoever_asks(gateway):
    gateway.store.digests["acme", "mail"] = ONE
    client, other = await gateway.client(), await gateway.client("other")
    events, request_id = await running(gateway, client, "mail")
    refusals = []

    async def refused(asking, name):
        with pytest.raises(NotFoundError) as caught:
            await asking.set_strength(name, 1.0)
        refusals.append((type(caught.value), caught.value.message))

    await refused(other, request_id)
    await refused(client, "no-such-request")
    gateway.worker.go_on.set()
    async for _ in events:
        pass
    await refused(client, request_id)
    assert len(set(refusals)) == 1
    assert gateway.worker.strengths == []


async def test_what_is_out_of_bounds_goes_nowhere(gateway):
    client = await gateway.client()
    changes = [("any", strength, "") for strength in (-0.01, 2.01, math.nan, math.inf, -math.inf)]
    for request_id, strength, adapter in [
        *changes,
        ("", 1.0, ""),
        ("x" * 65, 1.0, ""),
        ("any", 1.0, "no alias"),
        ("any", 1.0, "x" * 65),
    ]:
        with pytest.raises(InvalidRequestError) as caught:
            await client.set_strength(request_id, strength, adapter=adapter)
        wrong = "strength" if strength != 1.0 else "adapter" if adapter else "request_id"
        assert caught.value.field == wrong
    for name in ("x" * 65, "a\nb", "\0"):
        with pytest.raises(InvalidRequestError) as caught:
            await client.forget_session(name)
        assert caught.value.field == "session"
        with pytest.raises(InvalidRequestError) as caught:
            async for _ in client.generate("Hi", session=name):
                pass
        assert caught.value.field == "session"
    assert gateway.worker.calls.empty()


async def test_a_worker_that_is_gone_is_told_as_such(gateway):
    gateway.store.digests["acme", "mail"] = ONE
    client = await gateway.client()
    events, request_id = await running(gateway, client, "mail")

    gateway.worker.refusal = ServiceUnavailableError("the engine has stopped: try again")
    with pytest.raises(ServiceUnavailableError):
        await client.set_strength(request_id, 1.0)
    await events.aclose()


async def test_changes_of_a_stream_that_ends_meanwhile_end_too(gateway):
    gateway.store.digests["acme", "mail"] = ONE
    client = await gateway.client()
    for _ in range(10):
        gateway.worker.go_on.clear()
        events, request_id = await running(gateway, client, "mail")
        changes = [client.set_strength(request_id, 0.1 * number) for number in range(10)]
        gateway.worker.go_on.set()
        answers = await asyncio.gather(*changes, return_exceptions=True)
        async for _ in events:
            pass
        assert all(isinstance(each, dict | NotFoundError) for each in answers)
    await gateway.wait_until_idle()


async def test_a_session_goes_with_the_request_and_is_forgotten_on_request(gateway):
    client = await gateway.client()
    async for _ in client.chat([("user", "Hi")], session="kitchen"):
        pass
    assert gateway.worker.calls.get_nowait().request.session == "kitchen"
    assert await client.forget_session("kitchen") == 2
    assert await client.forget_session() == 2
    assert [request.session for request in gateway.worker.sessions] == ["kitchen", ""]
    claim = open_claim(gateway.sealer, gateway.worker.sessions[0].claim, boot_clock_s())
    assert claim.tenant_id == "acme"


async def test_what_a_worker_still_keeps_is_not_told_as_forgotten(gateway):
    client = await gateway.client()
    gateway.worker.refusal = ServiceUnavailableError("the engine has stopped: try again")
    with pytest.raises(ServiceUnavailableError):
        await client.forget_session()


async def test_of_a_stream_that_was_cut_the_engines_time_is_known(gateway):
    gateway.worker.engine_ms = 1500
    client = await gateway.client()
    events, _ = await running(gateway, client, ())
    await events.aclose()
    await gateway.wait_until_idle()
    usage = (await client.status()).usage
    assert usage.engine_time.ToMilliseconds() == 1500
