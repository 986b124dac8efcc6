"""What a client says of its own trace is taken at the doors only as the operator set it (T23)."""

import asyncio
import urllib.request

import pytest

from edgelora.v1 import gateway_service_pb2 as pb
from services.chassis import tracing
from services.chassis.otlp_tracer import OtlpTracer
from tests.support.gateway_bench import gateway_bench
from tests.support.otlp_receiver import OtlpReceiver

pytestmark = pytest.mark.integration

TRACE, SPAN = "a" * 32, "b" * 16
CLIENTS = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def receiver():
    made = OtlpReceiver()
    tracing.set_tracer(OtlpTracer("gateway", made.endpoint))
    yield made
    tracing.close_tracing()
    made.close()


@pytest.mark.parametrize(
    ("settings", "trace", "links"),
    [
        ({}, "own", []),
        ({"CLIENTS_TRACE": "ignore"}, "own", []),
        ({"CLIENTS_TRACE": "link"}, "own", [(TRACE, SPAN)]),
        ({"CLIENTS_TRACE": "parent"}, "theirs", []),
    ],
)
async def test_over_both_doors(receiver, settings, trace, links):
    async with gateway_bench() as bench:
        await bench.start(**settings)
        await bench.client()
        stub = await bench.stub()
        metadata = (*bench.authorization(), ("traceparent", CLIENTS))
        await stub.GetStatus(pb.GetStatusRequest(), metadata=metadata)
        request = urllib.request.Request(
            f"http://127.0.0.1:{bench.http_port}/v1/models",
            headers={"Authorization": f"Bearer {bench.keys['acme']}", "traceparent": CLIENTS},
        )
        await asyncio.to_thread(lambda: urllib.request.urlopen(request).read())
    tracing.close_tracing()
    spans = {span.name: span for span in receiver.spans}
    for door in ("GatewayService/GetStatus", "GET /v1/models"):
        span = spans[door]
        assert (span.trace_id == TRACE) is (trace == "theirs"), door
        assert span.parent_id == (SPAN if trace == "theirs" else "")
        assert span.links == links
