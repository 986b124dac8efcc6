"""The load generator against a real gRPC server: open loop, and honest about what went wrong."""

import asyncio
import time

import grpc
import pytest

from bench.load import Request, run_open_loop, send_request
from bench.workload import Arrival, Workload, schedule
from edgelora.client import EdgeLoraClient
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.gateway_service_pb2_grpc import (
    GatewayServiceServicer,
    add_GatewayServiceServicer_to_server,
)
from edgelora.v1.generation_pb2 import Delta, FinishReason, Usage

pytestmark = pytest.mark.integration


class GatewayAllAtOnce(GatewayServiceServicer):
    """Answers nobody before `num_wanted` requests are in flight: a closed loop would hang."""

    def __init__(self, num_wanted):
        self.requests = []
        self._num_wanted = num_wanted
        self._all_there = asyncio.Event()

    async def Generate(self, request, context):
        self.requests.append(request)
        if len(self.requests) == self._num_wanted:
            self._all_there.set()
        yield pb.GenerateResponse(event=pb.GenerationEvent(accepted=pb.Accepted(request_id="r")))
        await self._all_there.wait()
        if request.prompt == "cut":
            yield _event(delta=Delta(text="a", token_ids=[1]))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        # Text without a token is not the first token.
        yield _event(delta=Delta(text=""))
        yield _event(delta=Delta(text="a", token_ids=[1]))
        yield _event(usage=Usage(num_prompt_tokens=3, num_output_tokens=7))
        yield _event(done=pb.Done(finish_reason=FinishReason.FINISH_REASON_LENGTH))


def _event(**kind):
    return pb.GenerateResponse(event=pb.GenerationEvent(**kind))


@pytest.fixture
async def serve(tmp_path):
    servers = []

    async def start(servicer):
        server = grpc.aio.server()
        add_GatewayServiceServicer_to_server(servicer, server)
        address = f"unix:{tmp_path}/gateway.sock"
        server.add_insecure_port(address)
        await server.start()
        servers.append(server)
        return address

    yield start
    for server in servers:
        await server.stop(None)


def arrival(index):
    return Arrival(index=index, at_s=0.0, adapter=0, num_input_tokens=3, num_output_tokens=7)


async def test_every_request_is_sent_at_its_time_whatever_is_in_flight(serve):
    arrivals = schedule(
        Workload(
            num_adapters=4,
            alpha=0.3,
            rate_per_s=200.0,
            cv=1.5,
            duration_s=0.2,
            input_tokens=(3, 3),
            output_tokens=(7, 7),
            seed=3,
        )
    )
    gateway = GatewayAllAtOnce(len(arrivals))
    async with EdgeLoraClient(await serve(gateway), "key") as client:

        async def send(one, scheduled_s):
            request = Request(
                client=client,
                adapter=f"a{one.adapter}",
                prompt=f"prompt {one.index}",
                num_output_tokens=one.num_output_tokens,
            )
            return await send_request(request, scheduled_s)

        records = await run_open_loop(arrivals, send)
    assert len(records) == len(arrivals) == 40
    for one, record in zip(arrivals, records, strict=True):
        assert record.error is None
        assert record.sent_s >= record.scheduled_s
        assert record.scheduled_s - records[0].scheduled_s == pytest.approx(
            one.at_s - arrivals[0].at_s
        )
        assert record.sent_s <= record.first_token_s <= record.finished_s
        assert (record.num_input_tokens, record.num_output_tokens) == (3, 7)
    assert {request.prompt for request in gateway.requests} == {
        f"prompt {number}" for number in range(40)
    }


async def test_requests_force_their_length_and_name_their_adapter(serve):
    gateway = GatewayAllAtOnce(2)
    async with EdgeLoraClient(await serve(gateway), "key") as client:
        await asyncio.gather(
            *(
                send_request(
                    Request(client=client, adapter=name, prompt="p", num_output_tokens=7),
                    time.monotonic(),
                )
                for name in ("email", None)
            )
        )
    assert all(request.options.stop.ignore_eos for request in gateway.requests)
    assert {request.options.stop.max_tokens for request in gateway.requests} == {7}
    assert sorted(
        [selection.adapter for selection in request.adapters] for request in gateway.requests
    ) == [[], ["email"]]


async def test_a_cut_stream_is_an_error_and_never_finished(serve):
    async with EdgeLoraClient(await serve(GatewayAllAtOnce(1)), "key") as client:
        request = Request(client=client, adapter=None, prompt="cut", num_output_tokens=7)
        (record,) = await run_open_loop(
            [arrival(0)], lambda one, scheduled_s: send_request(request, scheduled_s)
        )
    assert record.error == "UNAVAILABLE"
    assert record.first_token_s is not None
    assert record.finished_s is None
    assert record.tpot_s is None
