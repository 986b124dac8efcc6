"""The interceptor over a real socket: errors keep their class, deadlines hold, logs are dumb."""

import asyncio
import json

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.errors import (
    AdapterNotFoundError,
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
)
from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1 import monitor_service_pb2_grpc as rpc
from services.chassis.channel import call_metadata, open_channel, translate_errors
from services.chassis.interceptor import DeadlinePolicy
from services.chassis.logs import configure_logging
from services.chassis.server import ServiceHost

NAME = "edgelora.v1.MonitorService"
SECRET_TEXT = "the words a user typed"


class Probe(rpc.MonitorServiceServicer):
    """Does in each call what the test told it to."""

    def __init__(self):
        self.behave = None
        self.cancelled = asyncio.Event()

    async def GetSnapshot(self, request, context):
        await self.behave()
        return pb.GetSnapshotResponse()

    async def WatchPressure(self, request, context):
        try:
            yield pb.WatchPressureResponse()
            await self.behave()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
async def served(tmp_path, capsys):
    configure_logging("probe")
    probe = Probe()
    address = f"unix:{tmp_path}/s.sock"
    host = ServiceHost([address], deadlines=DeadlinePolicy(max_s=0.5), max_message_bytes=64 * 1024)
    host.add(rpc.add_MonitorServiceServicer_to_server, probe, NAME)
    async with host.serving(), open_channel(address) as channel:
        yield probe, host, channel
    structlog.reset_defaults()


async def fail(error):
    raise error


async def hang():
    await asyncio.Event().wait()


async def call(channel, **arguments):
    with translate_errors():
        await rpc.MonitorServiceStub(channel).GetSnapshot(pb.GetSnapshotRequest(), **arguments)


async def test_a_domain_error_keeps_class_field_and_delay(served):
    probe, _, channel = served
    probe.behave = lambda: fail(
        InvalidRequestError("x must be 1", field="x", metadata={"x": "2"}, retry_after_s=3)
    )
    with pytest.raises(InvalidRequestError) as caught:
        await call(channel)
    error = caught.value
    assert (error.field, error.metadata, error.retry_after_s) == ("x", {"x": "2"}, 3)


async def test_a_stream_that_fails_ends_in_its_error(served):
    probe, _, channel = served
    probe.behave = lambda: fail(AdapterNotFoundError("no adapter of that name"))
    received = []
    with pytest.raises(AdapterNotFoundError), translate_errors():
        async for message in rpc.MonitorServiceStub(channel).WatchPressure(
            pb.WatchPressureRequest()
        ):
            received.append(message)
    assert len(received) == 1


async def logged_until_finished(capsys, num_calls: int) -> str:
    """What was logged once so many calls have ended: the answer is on its way a little earlier."""
    text = ""
    while text.count('"rpc_finished"') < num_calls:
        text += capsys.readouterr().out
        await asyncio.sleep(0.001)
    return text


async def test_an_unexpected_error_says_nothing_of_its_cause(served, capsys):
    probe, _, channel = served
    probe.behave = lambda: fail(ValueError(SECRET_TEXT))
    with pytest.raises(InternalError) as caught:
        await call(channel, metadata=(("x-request-id", "r-17"),))
    assert "r-17" in caught.value.message
    logged = await logged_until_finished(capsys, 1)
    assert SECRET_TEXT not in caught.value.message + logged
    lines = [json.loads(line) for line in logged.splitlines()]
    unexpected = next(line for line in lines if line["event"] == "unexpected_error")
    assert unexpected["error_type"] == "ValueError"
    finished = next(line for line in lines if line["event"] == "rpc_finished")
    assert (finished["request_id"], finished["code"]) == ("r-17", "INTERNAL")


async def test_one_line_is_logged_for_each_call(served, capsys):
    probe, _, channel = served
    probe.behave = lambda: asyncio.sleep(0)
    for _ in range(3):
        await call(channel)
    lines = [json.loads(line) for line in (await logged_until_finished(capsys, 3)).splitlines()]
    finished = [line for line in lines if line["event"] == "rpc_finished"]
    assert [line["code"] for line in finished] == ["OK"] * 3
    assert {line["service"] for line in finished} == {"probe"}


@pytest.mark.parametrize("timeout_s", [None, 0.05, 30])
async def test_a_call_never_outlives_its_deadline_nor_the_cap(served, timeout_s):
    probe, _, channel = served
    probe.behave = hang
    with pytest.raises(DeadlineExceededError):
        await call(channel, timeout=timeout_s)


async def test_cancelling_a_stream_cancels_the_handler(served):
    probe, _, channel = served
    probe.behave = hang
    stream = rpc.MonitorServiceStub(channel).WatchPressure(pb.WatchPressureRequest())
    await stream.read()
    stream.cancel()
    await asyncio.wait_for(probe.cancelled.wait(), 5)


async def test_too_large_a_message_is_refused_and_the_connection_lives_G06(served):
    probe, _, channel = served
    probe.behave = lambda: asyncio.sleep(0)
    method = f"/{NAME}/GetSnapshot"
    raw = channel.unary_unary(method)
    with pytest.raises(MessageTooLargeError), translate_errors():
        await raw(b"\x0a" + b"x" * 70_000)
    await call(channel)


async def test_bytes_that_are_no_message_are_an_error_and_the_connection_lives(served):
    probe, _, channel = served
    probe.behave = lambda: asyncio.sleep(0)
    with pytest.raises(InvalidRequestError, match="UTF-8"), translate_errors():
        await channel.unary_unary(f"/{NAME}/GetSnapshot")(b"\xff\xff\xff")
    await call(channel)


async def test_health_is_false_until_ready(served):
    _, host, channel = served
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=NAME)
    assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await host.set_ready(True)
    assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
    unknown = health_pb2.HealthCheckRequest(service="nobody")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Check(unknown)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_outgoing_metadata_carries_the_request_id_only():
    structlog.contextvars.clear_contextvars()
    assert call_metadata() == ()
    with structlog.contextvars.bound_contextvars(request_id="r", tenant_id="t"):
        assert call_metadata() == (("x-request-id", "r"),)
