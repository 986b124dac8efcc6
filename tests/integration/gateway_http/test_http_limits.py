"""What a stranger may cost: heads, bodies, connections, time (rows F23, F24)."""

import asyncio
import json
import socket

import pytest

from tests.support.held_outside import HeldOutside
from tests.support.http_wire import HttpWire
from tests.support.openai_node import chat_body, openai_node

pytestmark = pytest.mark.integration


async def connect(node):
    return await asyncio.open_connection("127.0.0.1", node.bench.http_port)


async def rest_of(reader):
    """What comes before the other side ends the connection, however it does."""
    try:
        return await reader.read()
    except ConnectionResetError:  # it had not read everything that was sent
        return b""


async def drip(writer, data):
    """Sends a byte now and then, until the other side has had enough."""
    try:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)
    except OSError:
        pass


async def test_a_head_that_drips_is_cut_off_and_others_are_served_f23(bench):
    node = await openai_node(bench, HTTP_HEAD_TIMEOUT="1s")
    slow = [await connect(node) for _ in range(20)]
    head = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 1000
    drips = [asyncio.create_task(drip(writer, head)) for _, writer in slow]
    await node.still_serves()
    for reader, writer in slow:
        assert await rest_of(reader) == b""
        writer.close()
    await asyncio.gather(*drips)


async def test_a_head_that_drips_after_an_answer_is_cut_off_as_well(bench):
    """The time for idle connections starts anew with each byte; that for heads must not."""
    node = await openai_node(bench, HTTP_HEAD_TIMEOUT="1s")
    wire = node.wire()
    assert (await wire.call("GET", "/v1/models")).status == 200
    dripping = asyncio.create_task(drip(wire._writer, b"GET /v1/models HTTP/1.1\r\n" * 1000))
    assert await rest_of(wire._reader) == b""
    await dripping
    await wire.close()


async def test_a_connection_that_says_nothing_is_closed(bench):
    node = await openai_node(bench, HTTP_HEAD_TIMEOUT="200ms")
    reader, writer = await connect(node)
    assert await reader.read() == b""
    writer.close()


async def test_a_body_that_drips_is_refused_and_the_connection_ends(bench):
    node = await openai_node(bench, HTTP_BODY_TIMEOUT="200ms", HTTP_HEAD_TIMEOUT="200ms")
    body = json.dumps(chat_body()).encode()
    wire = node.wire()
    request = wire.request_bytes("POST", "/v1/chat/completions", body)
    await wire.send(request[:-5])
    answer = await wire.read_head()
    assert answer.status == 400
    content = await wire._reader.readexactly(int(answer.headers["content-length"]))
    assert b"did not arrive within" in content
    assert await rest_of(wire._reader) == b""
    await wire.close()
    assert node.worker.calls.empty()


@pytest.mark.parametrize("size", [2**14 + 2**11, 2**16])
async def test_a_head_that_is_too_large_is_refused_f24(node, size):
    for flood in (
        b"GET /v1/models HTTP/1.1\r\nX-A: " + b"a" * size + b"\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\n" + b"X-A: b\r\n" * (size // 8) + b"\r\n",
        b"GET /" + b"a" * size + b" HTTP/1.1\r\n\r\n",
        b"a" * size,
    ):
        reader, writer = await connect(node)
        writer.write(flood)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"x-request-id: " in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == (
            "invalid_request_error"
        )
        writer.close()
    await node.still_serves()


async def test_a_large_head_within_the_limit_is_read(node):
    wire = node.wire("X-A: " + "a" * (2**14 - 2**9))
    assert (await wire.call("GET", "/v1/models")).status == 200
    await wire.close()


async def test_a_body_that_is_announced_too_large_is_refused_before_the_key_f24(bench):
    node = await openai_node(bench, HTTP_MAX_BODY="4KiB")
    for headers in ([], [f"Authorization: Bearer {node.key}"]):
        wire = HttpWire(node.bench.http_port, *headers)
        answer = await wire.call("POST", "/v1/chat/completions", b" " * (10 * 2**20))
        assert (answer.status, b"at most 4096 bytes" in answer.body) == (413, True)
        # The connection goes on: the body was read and dropped.
        assert (await wire.call("GET", "/healthz")).status == 200
        await wire.close()


async def test_a_body_of_unknown_length_is_cut_at_the_limit(bench):
    node = await openai_node(bench, HTTP_MAX_BODY="4KiB")

    async def endless():
        for _ in range(1000):
            yield b" " * 1000

    async with node.http() as http:
        answer = await http.post("/chat/completions", content=endless())
    assert answer.status_code == 413
    await node.still_serves()


async def test_strangers_cannot_make_the_gateway_read_a_body(node):
    """A body is read after the key: without one it is dropped as it comes."""
    reader, writer = await connect(node)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_a_body_that_drips_after_its_answer_is_not_awaited(bench):
    """The time for idle connections starts anew with each byte; that for bodies must not."""
    node = await openai_node(bench, HTTP_HEAD_TIMEOUT="1s")
    reader, writer = await connect(node)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    await reader.readuntil(b'{"status":"ok"}')
    dripping = asyncio.create_task(drip(writer, b" " * 100_000))
    assert await rest_of(reader) == b""
    await dripping
    writer.close()


async def test_compressed_and_form_bodies_are_refused_by_the_header_t07(node):
    async with node.http() as http:
        for header, value in (
            ("content-encoding", "gzip"),
            ("content-type", "multipart/form-data; boundary=x"),
        ):
            answer = await http.post("/chat/completions", content=b"{}", headers={header: value})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, header)
        body = json.dumps(chat_body())
        for content_type in ("application/json; charset=utf-8", "text/plain", ""):
            answer = await http.post(
                "/chat/completions", content=body, headers={"content-type": content_type}
            )
            assert answer.status_code == 200


async def test_one_peer_has_so_many_connections_and_gets_them_back(bench):
    node = await openai_node(bench, HTTP_MAX_CONNECTIONS_PER_PEER="3")
    held = [await connect(node) for _ in range(3)]
    reader, writer = await connect(node)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in answer
    writer.close()
    for _, writer in held:
        writer.close()
    for reader, _ in held:
        await reader.read()
    await node.still_serves()


async def test_all_peers_have_so_many_connections(bench):
    node = await openai_node(bench, HTTP_MAX_CONNECTIONS="2")
    held = [await connect(node) for _ in range(2)]
    reader, writer = await connect(node)
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    writer.close()
    for _, writer in held:
        writer.close()


async def test_a_reader_that_does_not_read_loses_its_stream_f23(bench):
    node = await openai_node(bench, CLIENT_STALL="300ms")
    await node.still_serves()
    node.worker.script = None
    await node.worker.calls.get()
    before = await HeldOutside.settled()
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taken.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(taken, ("127.0.0.1", node.bench.http_port))
    body = json.dumps(chat_body(stream=True)).encode()
    request = node.wire().request_bytes("POST", "/v1/chat/completions", body)
    await loop.sock_sendall(taken, request)
    call = await node.worker.calls.get()
    await call.ended.wait()
    assert not call.was_finished
    # The gateway holds nothing of it, though this side has neither read nor closed.
    await HeldOutside(before.num_files + 1, before.num_threads, before.num_tasks).again()
    taken.close()
    await before.again()
    node.worker.script = ["Hello", " there", "."]
    await node.still_serves()


async def test_a_whole_answer_that_nobody_reads_is_not_kept_for_ever(bench):
    node = await openai_node(bench, CLIENT_STALL="300ms")
    await node.still_serves()
    await node.worker.calls.get()
    node.worker.script = ["x" * 100_000] * 60
    before = await HeldOutside.settled()
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taken.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(taken, ("127.0.0.1", node.bench.http_port))
    body = json.dumps(chat_body()).encode()
    request = node.wire("Connection: close").request_bytes("POST", "/v1/chat/completions", body)
    await loop.sock_sendall(taken, request)
    call = await node.worker.calls.get()
    await call.ended.wait()
    await HeldOutside(before.num_files + 1, before.num_threads, before.num_tasks).again()
    taken.close()


async def test_a_connection_serves_one_request_after_the_other(node):
    wire = node.wire()
    for _ in range(20):
        assert (await wire.call("GET", "/v1/models")).status == 200
        answer = await wire.call("POST", "/v1/chat/completions", json.dumps(chat_body()).encode())
        assert answer.status == 200
    await wire.close()


async def test_300_connections_that_come_and_go_leave_nothing(node):
    await node.still_serves()
    before = await HeldOutside.settled()
    for _ in range(3):
        opened = [await connect(node) for _ in range(100)]
        for index, (_, writer) in enumerate(opened):
            writer.write([b"", b"G", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff"][index % 4])
        for _, writer in opened:
            writer.transport.abort()
    await before.again()
    await node.still_serves()


@pytest.mark.parametrize("has_key", [True, False])
async def test_a_body_in_very_many_chunks_is_not_read_to_its_end_f24(bench, has_key):
    """A few bytes each, they would keep the event loop from everybody for seconds."""
    node = await openai_node(bench, HTTP_HEAD_TIMEOUT="300s", HTTP_BODY_TIMEOUT="300s")
    reader, writer = await connect(node)
    key = node.bench.keys["acme"] if has_key else "nobody's"
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        + f"Authorization: Bearer {key}\r\n\r\n".encode()
        + b"1\r\n \r\n" * 5000
    )
    answers = await reader.read()  # to the end of the connection, though the body has none
    # The connection may end before its request was looked at, or after that.
    assert answers == b"" or answers.rpartition(b"HTTP/1.1 ")[2].startswith(b"400 ")
    writer.close()
    await node.still_serves()


async def test_a_body_in_many_chunks_is_read(node):
    reader, writer = await connect(node)
    body = json.dumps(chat_body(max_tokens=1, messages=[{"role": "user", "content": "a" * 3000}]))
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        + f"Authorization: Bearer {node.bench.keys['acme']}\r\n\r\n".encode()
        + b"".join(b"1\r\n%b\r\n" % bytes([byte]) for byte in body.encode())
        + b"0\r\n\r\n"
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()
