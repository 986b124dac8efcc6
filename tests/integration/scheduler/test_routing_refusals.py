"""`auto` in a real scheduler process that lacks something."""

from __future__ import annotations

import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    InvalidRequestError,
    RouterMissingError,
    ServiceUnavailableError,
)
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.routing_pb2 import RoutingReason
from services.chassis.channel import translate_errors
from tests.support.small_router import write_small_router

pytestmark = pytest.mark.integration

AUTO = {"adapters": [AdapterSelection(adapter="auto")], "routing_text": "Write an e-mail"}


async def test_a_file_that_is_no_router_is_told_with_the_remedy(bench, tmp_path):
    (tmp_path / "router").write_bytes(b"\x80\x04\x95")
    await bench.start_worker("w0")
    await bench.start(ROUTER_FILE=str(tmp_path / "router"))
    with pytest.raises(RouterMissingError, match="edgelora router train"), translate_errors():
        await bench.acquire(**AUTO)


async def test_a_store_that_is_away_is_told(bench, tmp_path):
    await bench.start_worker("w0")
    await bench.start(
        ROUTER_FILE=str(write_small_router(tmp_path / "router")), STORE_TIMEOUT="300ms"
    )
    with pytest.raises(ServiceUnavailableError, match="adapter store"), translate_errors():
        await bench.acquire(**AUTO)


async def test_a_tenant_without_adapters_is_served_by_the_base(bench, tmp_path):
    await bench.start_store()
    await bench.start_worker("w0")
    await bench.start(ROUTER_FILE=str(write_small_router(tmp_path / "router")))
    call, queued = await bench.queue(**AUTO)
    assert queued.routing.reason == RoutingReason.ROUTING_REASON_BASE
    assert (list(queued.adapters), queued.routing.num_candidates) == ([], 0)
    assert (await call.read()).granted.ticket_id
    # Who reaches the scheduler past the gateway is checked as well.
    with pytest.raises(InvalidRequestError, match="routing_text"), translate_errors():
        await bench.acquire(adapters=[AdapterSelection(adapter="auto")])
    with pytest.raises(AdapterNotFoundError), translate_errors():
        await bench.acquire(adapters=[AdapterSelection(adapter="mail")])
