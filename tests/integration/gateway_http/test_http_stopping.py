"""A gateway that is told to stop takes nothing new, lets answers end, and cuts none in silence."""

import asyncio
import json
import signal

import pytest

from tests.support.openai_node import OpenAiNode, chat_body

pytestmark = pytest.mark.integration


async def stopping(bench):
    """A gateway process that was told to stop, and the connection of a stream that had begun."""
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    gateway = await bench.start_gateway_process()
    await bench.client("acme")
    node = OpenAiNode(bench, "")
    node.worker.hold_after = 1
    wire = node.wire()
    body = json.dumps(chat_body(stream=True)).encode()
    await wire.send(wire.request_bytes("POST", "/v1/chat/completions", body))
    assert (await wire.read_head()).status == 200
    gateway.process.send_signal(signal.SIGTERM)
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", bench.http_port)
        except ConnectionError:
            return gateway, node, wire
        writer.close()


async def test_an_answer_that_ends_soon_is_whole(bench):
    gateway, node, wire = await stopping(bench)
    node.worker.go_on.set()
    assert b"data: [DONE]\n\n" in await wire._reader.read()
    assert await asyncio.to_thread(gateway.process.wait) == 0
    await wire.close()


async def test_an_answer_that_goes_on_is_cut_with_an_error(bench):
    gateway, node, wire = await stopping(bench)
    rest = await wire._reader.read()
    assert b"event: error\n" in rest
    assert b"[DONE]" not in rest
    assert rest.endswith(b"0\r\n\r\n")
    assert await asyncio.to_thread(gateway.process.wait) == 0
    await wire.close()
    await node.bench.wait_until_idle()
