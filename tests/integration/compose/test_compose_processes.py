"""The compose file's own commands and environments serve a real chat, as local processes."""

import json
import os
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from httpx import AsyncClient
from openai import AsyncOpenAI

from bench.adapters import ALL_LINEAR, write_random_adapter
from edgelora.client import EdgeLoraClient
from edgelora.v1 import admin_service_pb2 as admin
from edgelora.v1 import gateway_service_pb2 as gateway
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.admin_service_pb2_grpc import AdminServiceStub
from edgelora.v1.gateway_service_pb2_grpc import GatewayServiceStub
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    FinishReason,
    GenerationOptions,
    SamplingParams,
    StopConditions,
)
from services.chassis.base_model import BaseModel
from tests.support.compose_file import ROOT
from tests.support.compose_processes import compose_stack

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(scope="module")
def home():
    return Path(os.environ.get("EDGELORA_HOME") or ROOT / ".edgelora").resolve()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory, home):
    async with compose_stack(tmp_path_factory.mktemp("compose"), home) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api_key(stack):
    address = stack.environment("gateway")["EDGELORA_GATEWAY_ADMIN_ADDRESS"]
    async with grpc.aio.insecure_channel(address) as channel:
        created = await AdminServiceStub(channel).CreateTenant(
            admin.CreateTenantRequest(tenant_id="alice"), timeout=10
        )
    return created.api_key


def proc_texts(process):
    """What every user of the machine sees of a running process, and its environment."""
    if process.returncode is not None:
        return []
    proc = Path(f"/proc/{process.pid}")
    return [(proc / kind).read_text(errors="replace") for kind in ("cmdline", "environ")]


def text_of(events):
    """The whole output; every stream must be complete."""
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "accepted"
    assert kinds[-2:] == ["usage", "done"]
    assert events[-2].usage.num_output_tokens > 0
    assert events[-1].done.finish_reason in (
        FinishReason.FINISH_REASON_STOP,
        FinishReason.FINISH_REASON_LENGTH,
    )
    return "".join(event.delta.text for event in events if event.HasField("delta"))


async def chat(stack, api_key, question, adapters=()):
    """The events of one greedy answer."""
    request = gateway.ChatRequest(
        messages=[ChatMessage(role="user", content=question)],
        adapters=[AdapterSelection(adapter=name) for name in adapters],
        options=GenerationOptions(
            sampling=SamplingParams(temperature=0.0), stop=StopConditions(max_tokens=24)
        ),
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.port('gateway')}") as channel:
        call = GatewayServiceStub(channel).Chat(
            request, metadata=[("authorization", f"Bearer {api_key}")], timeout=60
        )
        return [response.event async for response in call]


async def test_a_chat_through_the_gateway_is_answered_by_the_model(stack, api_key):
    question = "What is the capital of France? Answer in one short sentence."
    assert "Paris" in text_of(await chat(stack, api_key, question))


async def test_an_adapter_is_uploaded_fetched_over_tcp_and_used(stack, api_key, home, tmp_path):
    model = BaseModel.load(home / "models" / "smollm2-135m-instruct")
    directory = write_random_adapter(
        tmp_path / "adapter", model, rank=4, modules=ALL_LINEAR, seed=1
    )
    async with EdgeLoraClient(f"127.0.0.1:{stack.port('gateway')}", api_key) as client:
        registered = await client.register_adapter(directory, alias="mine")
    question = "What is the capital of Italy?"
    adapted = await chat(stack, api_key, question, ["mine"])
    assert adapted[0].accepted.adapters[0].digest == registered.adapter.digest
    assert text_of(adapted) != text_of(await chat(stack, api_key, question))


async def test_the_openai_client_gets_an_answer_of_the_wanted_shape(stack, api_key):
    """Also the process that checks schemas runs as the file says."""
    city = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    address = f"http://127.0.0.1:{stack.port('gateway', '8080')}/v1"
    async with AsyncOpenAI(base_url=address, api_key=api_key, max_retries=0) as client:
        answer = await client.chat.completions.create(
            model="smollm2-135m-instruct",
            messages=[{"role": "user", "content": "What is the capital of Italy?"}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": city, "strict": True},
            },
            temperature=0,
            max_tokens=24,
        )
    assert answer.choices[0].finish_reason == "stop"
    assert json.loads(answer.choices[0].message.content)["city"] in ("Paris", "Rome")


async def test_the_dashboard_is_opened_by_its_secret_and_nothing_else(stack):
    address = f"http://127.0.0.1:{stack.port('gateway', '8081')}"
    async with AsyncClient(base_url=address, headers={"origin": address}) as browser:
        assert (await browser.get("/")).status_code == 401
        assert (await browser.post("/login", data={"key": "0" * 64})).status_code == 403
        await browser.post("/login", data={"key": stack.secret("operator_key").strip()})
        assert (await browser.get("/")).status_code == 200


async def test_nobody_is_served_without_a_key(stack):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.port('gateway')}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await GatewayServiceStub(channel).GetStatus(gateway.GetStatusRequest(), timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_redis_lets_the_store_do_its_work_and_nothing_else_T21(stack):
    password = stack.secret("redis_password")
    assert (await stack.redis_command("PING")).startswith(b"-NOAUTH")
    assert await stack.redis_command("PING", password=password) == b"+PONG\r\n"
    assert (await stack.redis_command("PING", password="wrong")).startswith(b"-NOAUTH")
    for forbidden in (
        ("CONFIG", "GET", "*"),
        ("KEYS", "*"),
        ("EVAL", "return 1", "0"),
        ("FLUSHALL",),
        ("MODULE", "LIST"),
        ("DEBUG", "SLEEP", "0"),
        ("GET", "another:key"),
        ("ACL", "LIST"),
    ):
        answer = await stack.redis_command(*forbidden, password=password)
        # Newer servers refuse DEBUG to everybody before they look at rights.
        assert answer.startswith((b"-NOPERM", b"-ERR DEBUG command not allowed")), forbidden
    assert "hot_index_connected" in stack.log_file("adapter_store").read_text()
    assert await stack.redis_command("HLEN", "edgelora:hot:worker:cpu0", password=password)


async def test_no_secret_is_in_a_command_line_an_environment_or_a_log(stack, api_key):
    names = ("redis_password", "seal_key", "operator_key")
    secrets = [*(stack.secret(name).strip() for name in names), api_key]
    for service, process in stack.processes.items():
        texts = [stack.log_file(service).read_text(errors="replace"), *proc_texts(process)]
        assert not any(secret in text for secret in secrets for text in texts), service


async def test_what_was_asked_is_in_no_log(stack, api_key):
    for service in stack.processes:
        assert "capital of France" not in stack.log_file(service).read_text(errors="replace")
