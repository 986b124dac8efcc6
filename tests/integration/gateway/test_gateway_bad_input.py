"""Bad requests through real sockets: a clear status, the field named, other streams untouched."""

from __future__ import annotations

import math

import grpc
import pytest
import pytest_asyncio

from edgelora.errors import (
    EdgeLoraError,
    InvalidRequestError,
    MessageTooLargeError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.generation import Delta
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import ChatMessage, GenerationOptions
from edgelora.v1.generation_pb2 import SamplingParams as Sampling
from edgelora.v1.generation_pb2 import StopConditions as Stop
from tests.support.gateway_bench import gateway_bench

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

CANARY = "zebra"
"""In every refused text: no error may repeat what its caller wrote."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway():
    async with gateway_bench() as bench:
        await bench.start()
        await bench.client()
        yield bench


@pytest_asyncio.fixture(loop_scope="module")
async def running_stream(gateway):
    """A stream that is open during the test and must end well after it."""
    gateway.worker.hold_after = 1
    client = await gateway.client()
    events = client.generate("a stream beside the bad ones")
    async for event in events:
        if isinstance(event, Delta):
            break
    gateway.worker.calls.get_nowait()
    yield
    gateway.worker.go_on.set()
    rest = [event async for event in events]
    assert type(rest[-1]).__name__ == "Done"
    gateway.worker.go_on.clear()
    gateway.worker.hold_after = None
    await gateway.wait_until_idle()


def options(**kinds) -> GenerationOptions:
    return GenerationOptions(**kinds)


def sampling(**values) -> dict:
    return {"options": options(sampling=Sampling(**values))}


def stop(**values) -> dict:
    return {"options": options(stop=Stop(**values))}


def adapters(*selections: AdapterSelection) -> dict:
    return {"adapters": selections}


def chosen(name: str = "mail", **more) -> AdapterSelection:
    return AdapterSelection(adapter=name, **more)


GENERATE_CASES = [
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": " \n\t"}),
    ("prompt", {"prompt": f"{CANARY}\0"}),
    ("options.sampling.temperature", sampling(temperature=-0.1)),
    ("options.sampling.temperature", sampling(temperature=math.nan)),
    ("options.sampling.temperature", sampling(temperature=math.inf)),
    ("options.sampling.temperature", sampling(temperature=1e9)),
    ("options.sampling.top_k", sampling(top_k=0)),
    ("options.sampling.top_p", sampling(top_p=0.0)),
    ("options.sampling.top_p", sampling(top_p=1.1)),
    ("options.sampling.top_p", sampling(top_p=math.nan)),
    ("options.sampling.min_p", sampling(min_p=-0.1)),
    ("options.sampling.min_p", sampling(min_p=math.nan)),
    ("options.sampling.repetition_penalty", sampling(repetition_penalty=0.0)),
    ("options.sampling.repetition_penalty", sampling(repetition_penalty=-math.inf)),
    ("options.sampling.presence_penalty", sampling(presence_penalty=2.1)),
    ("options.sampling.frequency_penalty", sampling(frequency_penalty=-2.1)),
    ("options.sampling.frequency_penalty", sampling(frequency_penalty=math.nan)),
    ("options.logprobs", {"options": options(logprobs=21)}),
    ("options.logprobs", {"options": options(logprobs=2**32 - 1)}),
    ("options.stop.max_tokens", stop(max_tokens=0)),
    ("options.stop.stop_strings[0]", stop(stop_strings=[""])),
    ("options.stop.stop_strings[1]", stop(stop_strings=["ok", CANARY * 2000])),
    ("options.stop.stop_strings[0]", stop(stop_strings=["a\0"])),
    ("options.stop.stop_strings", stop(stop_strings=["a"] * 17)),
    ("options.stop.stop_strings", stop(stop_strings=["a"] * 10_000)),
    ("options.stop.stop_token_ids", stop(stop_token_ids=range(17))),
    ("adapters", adapters(*(chosen(f"a{i}") for i in range(5)))),
    ("adapters[0].adapter", adapters(chosen(""))),
    ("adapters[0].adapter", adapters(chosen(" "))),
    ("adapters[0].adapter", adapters(chosen("../" + CANARY))),
    ("adapters[0].adapter", adapters(chosen("acme/home.v1.2"))),
    ("adapters[0].adapter", adapters(chosen(".."))),
    ("adapters[0].adapter", adapters(chosen("a\0b"))),
    ("adapters[0].adapter", adapters(chosen("\u202egoh"))),
    ("adapters[0].adapter", adapters(chosen("a" * 65))),
    ("adapters[0].adapter", adapters(chosen("sha256:" + "A" * 64))),
    ("adapters[1].adapter", adapters(chosen("mail"), chosen("mail"))),
    ("adapters[0].strength", adapters(chosen(strength=-0.01))),
    ("adapters[0].strength", adapters(chosen(strength=2.01))),
    ("adapters[0].strength", adapters(chosen(strength=math.nan))),
    ("adapters[0].strength", adapters(chosen(strength=math.inf))),
    ("priority", {"priority": 4}),
    ("priority", {"priority": -1}),
    ("user", {"user": CANARY * 13}),
    ("user", {"user": CANARY + "\n"}),
    ("user", {"user": "a\0"}),
    ("user", {"user": "\u202enna"}),
]

CHAT_CASES = [
    ("messages", []),
    ("messages", [("user", "x")] * 257),
    ("messages[0].content", [("user", "")]),
    ("messages[0].content", [("user", "  ")]),
    ("messages[0].content", [("user", "\0")]),
    ("messages[0].role", [(CANARY, "hi")]),
    ("messages[0].role", [("", "hi")]),
    ("messages[1].role", [("user", "hi"), ("system", "x"), ("user", "hi")]),
    ("messages[1].role", [("user", "hi"), ("assistant", "hello")]),
]


async def refusal(call) -> EdgeLoraError:
    """What a streaming call raised; it must not have sent anything before."""
    try:
        async for response in call:
            pytest.fail(f"an answer instead of an error: {response}")
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    pytest.fail("the call ended well")


def check(error: EdgeLoraError, field: str) -> None:
    assert isinstance(error, InvalidRequestError)
    assert error.field == field
    assert error.message.startswith(field)
    assert CANARY not in error.message


async def test_every_bad_generate_names_its_field_P03_P04_P05_P07_P08_A09(gateway, running_stream):
    stub = await gateway.stub()
    for field, changes in GENERATE_CASES:
        request = pb.GenerateRequest(**{"prompt": CANARY, **changes})
        call = stub.Generate(request, metadata=gateway.authorization(), timeout=10)
        check(await refusal(call), field)
    assert gateway.worker.calls.empty()


async def test_every_bad_chat_names_its_field_P03(gateway, running_stream):
    stub = await gateway.stub()
    for field, turns in CHAT_CASES:
        messages = [ChatMessage(role=role, content=content) for role, content in turns]
        call = stub.Chat(
            pb.ChatRequest(messages=messages), metadata=gateway.authorization(), timeout=10
        )
        check(await refusal(call), field)
    assert gateway.worker.calls.empty()


async def test_every_bad_alias_and_digest_names_its_field_T05(gateway):
    stub = await gateway.stub()
    digest = "sha256:" + "a" * 64
    names = [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "%2e%2e",
        "a\\b",
        "a\0",
        "a" * 65,
        "a b",
        "é",
        "🤗",
    ]
    for name in names:
        request = pb.SetAdapterAliasRequest(name=name, digest=digest)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SetAdapterAlias(request, metadata=gateway.authorization(), timeout=10)
        check(from_rpc_error(caught.value), "name")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DeleteAdapter(
                pb.DeleteAdapterRequest(adapter=name), metadata=gateway.authorization(), timeout=10
            )
        check(from_rpc_error(caught.value), "adapter")
    for bad in ["", "sha256:", digest[:-1], digest.upper(), "md5:" + "a" * 64, digest + "a"]:
        request = pb.SetAdapterAliasRequest(name="mail", digest=bad)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SetAdapterAlias(request, metadata=gateway.authorization(), timeout=10)
        check(from_rpc_error(caught.value), "digest")


async def test_a_huge_token_limit_is_clipped_to_the_context_P04(gateway):
    client = await gateway.client()
    stub = await gateway.stub()
    request = pb.GenerateRequest(prompt="Hi", **stop(max_tokens=10**9))
    call = stub.Generate(request, metadata=gateway.authorization(), timeout=10)
    kinds = [response.event.WhichOneof("event") async for response in call]
    assert kinds[-1] == "done"
    worker_call = gateway.worker.calls.get_nowait()
    assert worker_call.ticket.max_output_tokens == gateway.worker.max_context_tokens
    assert (await client.status()).max_context_tokens == gateway.worker.max_context_tokens


RAW_REQUESTS = [
    b"\x0a\x03\xff\xfe\xfd",  # prompt: no UTF-8
    b"\x0a\x05\xed\xa0\xbdhi",  # prompt: a lone surrogate
    b"\x12\x05\x0a\x03a\xff\xfe",  # adapters[0].adapter: no UTF-8
    b"\x0a\x7fshort",  # a text longer than its message
    b"\xff" * 40,  # no protobuf at all
    b"\x1b" * 1000,  # groups a thousand deep
]


async def test_undecodable_bytes_are_a_clear_error_and_hurt_nobody_P10_P11(gateway, running_stream):
    async with grpc.aio.insecure_channel(
        gateway.address("gateway"), options=[("grpc.default_authority", "localhost")]
    ) as channel:
        for method in ("Generate", "Chat"):
            raw_stream = channel.unary_stream(f"/edgelora.v1.GatewayService/{method}")
            for raw in RAW_REQUESTS:
                call = raw_stream(raw, metadata=gateway.authorization(), timeout=10)
                error = await refusal(call)
                assert isinstance(error, InvalidRequestError)
                assert "UTF-8" in error.message
                assert error.field == "request"
        raw_upload = channel.stream_unary("/edgelora.v1.GatewayService/RegisterAdapter")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_upload(iter(RAW_REQUESTS[:1]), metadata=gateway.authorization(), timeout=10)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_over_4_mib_is_refused_and_the_connection_goes_on_G06(
    gateway, running_stream
):
    stub = await gateway.stub()
    for num_bytes in (4 * 2**20 + 1, 5 * 2**20):
        request = pb.GenerateRequest(prompt="a" * num_bytes)
        call = stub.Generate(request, metadata=gateway.authorization(), timeout=10)
        error = await refusal(call)
        assert isinstance(error, MessageTooLargeError)
        assert str(4 * 2**20) in error.message
        await stub.GetStatus(pb.GetStatusRequest(), metadata=gateway.authorization(), timeout=10)


async def test_64_kib_of_headers_are_refused_F24(gateway, running_stream):
    stub = await gateway.stub()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetStatus(
            pb.GetStatusRequest(),
            metadata=(*gateway.authorization(), ("x-filler", "a" * 2**16)),
            timeout=10,
        )
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await stub.GetStatus(pb.GetStatusRequest(), metadata=gateway.authorization(), timeout=10)


async def test_a_bad_request_without_a_key_is_told_only_that_T39(gateway):
    stub = await gateway.stub()
    error = await refusal(stub.Generate(pb.GenerateRequest(prompt=""), timeout=10))
    assert isinstance(error, UnauthenticatedError)


async def test_the_client_refuses_what_the_wire_can_not_carry(gateway):
    from edgelora.generation import GenerationOptions as Options

    client = await gateway.client()
    for bad in (Options(max_tokens=-1), Options(top_k=2**40), Options(max_tokens="5")):
        with pytest.raises(InvalidRequestError):
            async for _ in client.generate("Hi", options=bad):
                pass
    with pytest.raises(InvalidRequestError):
        async for _ in client.generate("\ud83d"):
            pass
