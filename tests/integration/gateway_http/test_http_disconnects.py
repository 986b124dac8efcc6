"""A client that leaves ends its generation, wherever it is (rows S10, S11, S12, F22)."""

import asyncio
import json

import pytest

from tests.support.held_outside import HeldOutside
from tests.support.openai_node import chat_body, openai_node

pytestmark = pytest.mark.integration

PATHS = {
    "/v1/chat/completions": chat_body(),
    "/v1/completions": {"model": "stand-in", "prompt": "Hi."},
    "/v1/responses": {"model": "stand-in", "input": "Hi."},
}


async def post(wire, path, body):
    await wire.send(wire.request_bytes("POST", path, json.dumps(body).encode()))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_that_leaves_stops_the_worker_within_two_steps_s10(node, path, is_streamed):
    """The worker takes a step whenever it is told to; it is cancelled before its second."""
    node.worker.script = None
    node.worker.hold_after = 3
    wire = node.wire()
    await post(wire, path, {**PATHS[path], "stream": is_streamed})
    call = await node.worker.calls.get()
    if is_streamed:
        assert (await wire.read_head()).status == 200
        await wire.read_chunk()
    await wire.close()
    # Nothing is ever said again: only the leaving can end it.
    await call.ended.wait()
    assert call.num_sent <= 3
    assert not call.was_finished
    await node.bench.wait_until_idle()


async def test_a_client_that_half_closes_has_left(node):
    node.worker.hold_after = 1
    reader, writer = await asyncio.open_connection("127.0.0.1", node.bench.http_port)
    body = json.dumps(chat_body()).encode()
    writer.write(node.wire().request_bytes("POST", "/v1/chat/completions", body))
    call = await node.worker.calls.get()
    writer.write_eof()
    await call.ended.wait()
    assert await reader.read() == b""
    writer.close()


async def test_a_client_that_pipelines_and_leaves_has_left(node):
    """The second request pauses the parser, which must not hide the end of the connection."""
    node.worker.hold_after = 1
    wire = node.wire()
    body = json.dumps(chat_body()).encode()
    await wire.send(wire.request_bytes("POST", "/v1/chat/completions", body) * 3)
    call = await node.worker.calls.get()
    wire.reset()
    await call.ended.wait()
    await node.bench.wait_until_idle()
    assert node.worker.calls.empty()


async def leave(node, num_times):
    """Before the head is whole, within the body, before the first token, and after it."""
    body = json.dumps(chat_body(stream=True)).encode()
    for index in range(num_times):
        wire = node.wire()
        request = wire.request_bytes("POST", "/v1/chat/completions", body)
        moment = index % 4
        cut = {0: len(request) // 3, 1: len(request) - 5}.get(moment, len(request))
        await wire.send(request[:cut])
        if moment == 3:
            answer = await wire.read_head()
            if answer.status == 200:  # else too many of the tenant's are still ending
                await wire.read_chunk()
        wire.reset()
    await node.bench.wait_until_idle()


async def test_200_abrupt_ends_at_every_moment_leave_nothing_s11_s12(bench):
    node = await openai_node(bench)
    node.worker.hold_after = 1
    await leave(node, 40)
    before = await HeldOutside.settled()
    await leave(node, 200)
    await before.again()
    node.worker.hold_after = None
    await node.still_serves()


async def test_a_call_that_was_left_is_logged_as_499(node, capsys):
    node.worker.hold_after = 1
    wire = node.wire()
    await post(wire, "/v1/chat/completions", chat_body())
    call = await node.worker.calls.get()
    wire.reset()
    await call.ended.wait()
    logged = ""
    while "http_finished" not in logged:
        await asyncio.sleep(0.01)
        logged += capsys.readouterr().out
    assert "status=499" in logged
    assert "unexpected_error" not in logged
