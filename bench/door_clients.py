"""One request through each of a node's doors, by a thin client that keeps its connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from bench.deployment import PlacedAdapter
from bench.result import BenchError
from edgelora.client import EdgeLoraClient
from edgelora.generation import Delta, GenerationOptions, Usage

_REQUEST_LIMIT_S = 120.0
_DATA = b"data: "
_DONE = b"[DONE]"
_CHUNKED = b"\r\ntransfer-encoding: chunked\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRequest:
    """One greedy continuation of a plain prompt."""

    adapter: PlacedAdapter
    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRecord:
    """What a client saw of it. Times are seconds of one monotonic clock."""

    sent_s: float
    first_text_s: float
    finished_s: float
    node_first_token_s: float
    """From the request's acceptance to its first token, as the node told it."""
    num_tokens: int
    text: str

    @property
    def first_text_wait_s(self) -> float:
        """What the client waited for the first text."""
        return self.first_text_s - self.sent_s

    @property
    def around_s(self) -> float:
        """The part of that wait that lies outside the node's own figure: the way in and out."""
        return self.first_text_wait_s - self.node_first_token_s


class Door(Protocol):
    """A way to the node."""

    async def send(self, request: DoorRequest) -> DoorRecord:
        """Sends a request and reads its answer. Raises what the door raises."""
        ...


class GrpcDoor:
    """GatewayService.Generate by the Python client."""

    async def send(self, request: DoorRequest) -> DoorRecord:
        """Sends a request and reads its answer. Raises EdgeLoraError."""
        sent_s = time.monotonic()
        texts: list[str] = []
        first_s = sent_s
        usage: Usage | None = None
        events = request.adapter.client.generate(
            request.prompt,
            adapters=request.adapter.alias,
            options=GenerationOptions(max_tokens=request.max_tokens, temperature=0.0),
            timeout_s=_REQUEST_LIMIT_S,
        )
        async with aclosing(events):
            async for event in events:
                match event:
                    case Delta(text=text) if text:
                        first_s = first_s if texts else time.monotonic()
                        texts.append(text)
                    case Usage():
                        usage = event
        return _record(
            sent_s,
            first_s,
            texts,
            None if usage is None else usage.time_to_first_token_s,
            usage.num_output_tokens if usage else 0,
        )


class OpenAiDoor:
    """POST /v1/completions with server-sent events."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections = connections

    async def send(self, request: DoorRequest) -> DoorRecord:
        """Sends a request and reads its answer. Raises BenchError."""
        body = {
            "model": request.adapter.alias,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        sent_s = time.monotonic()
        texts: list[str] = []
        first_s, is_whole = sent_s, False
        last: dict[str, Any] = {}
        posted = self._connections.post("/v1/completions", request.adapter.client, body)
        async with aclosing(posted) as lines:
            async for line in lines:
                data = line.removeprefix(_DATA)
                if not data or data == _DONE:
                    is_whole = is_whole or data == _DONE
                    continue
                last = json.loads(data)
                if last.get("choices") and last["choices"][0]["text"]:
                    first_s = first_s if texts else time.monotonic()
                    texts.append(last["choices"][0]["text"])
        if not is_whole:
            raise BenchError("a stream of the OpenAI API was cut: see the gateway's log")
        served = last["edgelora"]["times"]["time_to_first_token_s"]
        return _record(sent_s, first_s, texts, served, last["usage"]["completion_tokens"])


class OllamaDoor:
    """POST /api/generate with lines of JSON."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections = connections

    async def send(self, request: DoorRequest) -> DoorRecord:
        """Sends a request and reads its answer. Raises BenchError."""
        body = {
            "model": request.adapter.alias,
            "prompt": request.prompt,
            "raw": True,
            "options": {"num_predict": request.max_tokens, "temperature": 0},
        }
        sent_s = time.monotonic()
        texts: list[str] = []
        first_s = sent_s
        last: dict[str, Any] = {}
        posted = self._connections.post("/api/generate", request.adapter.client, body)
        async with aclosing(posted) as lines:
            async for line in lines:
                last = json.loads(line)
                if last.get("response"):
                    first_s = first_s if texts else time.monotonic()
                    texts.append(last["response"])
        if not last.get("done"):
            raise BenchError("a stream of the Ollama API was cut: see the gateway's log")
        served = last["edgelora"]["times"]["time_to_first_token_s"]
        return _record(sent_s, first_s, texts, served, last["eval_count"])


class HttpConnections:
    """Kept connections to one HTTP listener: as little of a client as will do."""

    def __init__(self, address: str, keys: Mapping[EdgeLoraClient, str]) -> None:
        """`keys`: the API key of each client, whose adapters the requests name."""
        self._host, _, self._port = address.rpartition(":")
        self._keys = keys
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._opened = AsyncExitStack()

    async def close(self) -> None:
        """Closes all of them."""
        await self._opened.aclose()

    async def post(
        self, path: str, tenant: EdgeLoraClient, body: Mapping[str, object]
    ) -> AsyncGenerator[bytes]:
        """Yields the lines of a chunked answer as they come. Raises BenchError for another."""
        data = json.dumps(body).encode()
        reader, writer = await self._connection()
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
            f"authorization: Bearer {self._keys[tenant]}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200") or _CHUNKED not in head.lower():
            status = head.partition(b"\r\n")[0].decode("latin-1")
            raise BenchError(f"{path} answered {status}: see the gateway's log")
        rest = b""
        while size := int(await reader.readline(), 16):
            chunk = await reader.readexactly(size + 2)
            *lines, rest = (rest + chunk[:-2]).split(b"\n")
            for line in lines:
                yield line
        await reader.readline()
        self._idle.append((reader, writer))

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():  # the node closes what is not used for long
                return reader, writer
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        self._opened.push_async_callback(_close, writer)
        return reader, writer


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def opened_doors(
    http_address: str, keys: Mapping[EdgeLoraClient, str]
) -> AsyncIterator[dict[str, Door]]:
    """Yields the doors by name."""
    connections = HttpConnections(http_address, keys)
    try:
        yield {
            "gRPC": GrpcDoor(),
            "OpenAI": OpenAiDoor(connections),
            "Ollama": OllamaDoor(connections),
        }
    finally:
        await connections.close()


def _record(
    sent_s: float, first_s: float, texts: list[str], node_s: float | None, num_tokens: int
) -> DoorRecord:
    if not texts or node_s is None:
        raise BenchError("an answer had no text: see the gateway's log")
    return DoorRecord(
        sent_s=sent_s,
        first_text_s=first_s,
        finished_s=time.monotonic(),
        node_first_token_s=node_s,
        num_tokens=num_tokens,
        text="".join(texts),
    )
