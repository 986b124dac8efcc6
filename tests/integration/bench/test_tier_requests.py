"""Which tier a request was served from is what the node counted, and its load the one it did."""

import grpc
import pytest

from bench.deployment import PlacedAdapter
from bench.tier_requests import ask_tier
from bench.token_gaps import run_segment
from edgelora.client import EdgeLoraClient
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import Adapter, AdapterUsage, LoadStages
from edgelora.v1.gateway_service_pb2_grpc import (
    GatewayServiceServicer,
    add_GatewayServiceServicer_to_server,
)
from edgelora.v1.generation_pb2 import Delta, FinishReason, Usage

pytestmark = pytest.mark.integration


class Words:
    """Writes prompts that say what they were written for."""

    def write(self, num_tokens, seed):
        return f"{num_tokens} {seed}"


class CountingGateway(GatewayServiceServicer):
    """The first request for an adapter finds it on flash; its load is reported late."""

    def __init__(self):
        self.prompts = []
        self.usage = AdapterUsage()
        self._num_asked_since_load = 0

    async def Generate(self, request, context):
        self.prompts.append(request.prompt)
        if self.usage.num_flash_hits:
            self.usage.num_memory_hits += 1
        else:
            self.usage.num_flash_hits += 1
        for token in range(request.options.stop.max_tokens):
            yield _event(delta=Delta(text="a", token_ids=[token]))
        yield _event(usage=Usage(adapter_load_time={"nanos": 20_000_000}))
        yield _event(done=pb.Done(finish_reason=FinishReason.FINISH_REASON_LENGTH))

    async def GetAdapter(self, request, context):
        if self.usage.num_flash_hits and not self.usage.num_loads:
            self._num_asked_since_load += 1
            if self._num_asked_since_load == 3:
                self.usage.num_loads = 1
                self.usage.flash_bytes_read = 1000
                self.usage.last_load.CopyFrom(LoadStages(decode_s=0.003))
        return pb.GetAdapterResponse(adapter=Adapter(usage=self.usage))


def _event(**kind):
    return pb.GenerateResponse(event=pb.GenerationEvent(**kind))


@pytest.fixture
def gateway():
    return CountingGateway()


@pytest.fixture
async def placed(tmp_path, gateway):
    server = grpc.aio.server()
    add_GatewayServiceServicer_to_server(gateway, server)
    address = f"unix:{tmp_path}/gateway.sock"
    server.add_insecure_port(address)
    await server.start()
    async with EdgeLoraClient(address, "key") as client:
        yield PlacedAdapter(client, "email")
    await server.stop(None)


async def test_a_load_is_waited_for_until_the_worker_has_reported_it(placed):
    first = await ask_tier(placed, Words(), 8, "first")
    assert (first.tier, first.bytes_read) == ("flash", 1000)
    assert first.stages.decode_s == pytest.approx(0.003)
    assert first.answer.ready_s == pytest.approx(0.02)
    second = await ask_tier(placed, Words(), 8, "second")
    assert (second.tier, second.stages, second.bytes_read) == ("memory", None, 0)


async def test_a_segment_has_a_gap_for_every_token_after_the_first_of_each_stream(placed, gateway):
    alone = await run_segment(placed, [], Words(), "alone", 5)
    assert (len(alone.gaps_s), alone.num_requests) == (4 * 4, 0)
    assert all(gap >= 0 for gap in alone.gaps_s)
    gateway.prompts.clear()
    beside = await run_segment(placed, [placed], Words(), "beside", 5)
    assert len(beside.gaps_s) == 4 * 4
    assert beside.num_requests >= 1
    assert len(gateway.prompts) == 4 + beside.num_requests
    assert len(set(gateway.prompts)) == len(gateway.prompts)
