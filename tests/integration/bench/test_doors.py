"""`edgelora bench doors`: one request through all three doors of a real stack."""

import asyncio

import pytest

from bench import doors
from bench.deployment import deployment
from bench.door_clients import HttpConnections, opened_doors
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions
from tests.support.prepared_model import prepared_model

pytestmark = pytest.mark.integration


async def test_every_door_gives_the_same_answer_and_fills_its_rows():
    options = BenchOptions(quick=True, model_directory=prepared_model())
    async with deployment(options, {"EDGELORA_INFERENCE_PREFIX_CACHING": "false"}) as node:
        await doors._register(node, options)
        requests = doors._requests(node, PromptWriter(prepared_model()), "1", 8)[:2]
        turns = {}
        async with opened_doors(node.http_address, node.keys) as opened:
            for name, door in opened.items():
                found = turns[1, name] = doors.Turns(gateway_s=0.5, tokens_per_s=[10.0])
                found.records = await doors._turn(door, requests, 1)
    grpc, openai, ollama = (
        [(record.text, record.num_tokens) for record in found.records] for found in turns.values()
    )
    assert grpc == openai == ollama
    for found in turns.values():
        for record in found.records:
            assert record.sent_s < record.first_text_s <= record.finished_s
            assert 0 < record.around_s < record.first_text_wait_s
    assert [row["ratio"] for row in doors._token_rows(turns)] == [1.0, 1.0, 1.0]
    assert [row["door"] for row in doors._first_token_rows(turns)] == ["gRPC", "OpenAI", "Ollama"]
    assert len(list(doors._targets(turns))) == 4


async def test_a_connection_the_node_has_closed_is_replaced_and_a_refusal_told():
    answers = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\na\nb\n\r\n0\r\n\r\n"] * 2
    answers.append(b"HTTP/1.1 429 Too Many Requests\r\n\r\n")

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(answers.pop(0))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connections = HttpConnections(f"127.0.0.1:{port}", {"tenant": "key"})
        for _ in range(2):
            assert [line async for line in connections.post("/", "tenant", {})] == [b"a", b"b"]
            ((reader, _),) = connections._idle
            assert await reader.read() == b""
        with pytest.raises(BenchError, match="429 Too Many Requests"):
            async for _ in connections.post("/", "tenant", {}):
                pass
        await connections.close()


def test_a_running_node_is_refused(tmp_path):
    with pytest.raises(BenchError, match="leave out --address"):
        doors.run(BenchOptions(model_directory=tmp_path, address="127.0.0.1:1"))
