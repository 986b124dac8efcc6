"""OpenAI's clients on the real model, through the whole stack."""

import math

import openai
import pytest
from pydantic import BaseModel

from tests.support.up_process import ROOT, up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

TENANT, ADAPTER = "flat", "home"
BASE = "smollm2-135m-instruct"
ASK = [{"role": "user", "content": "Turn on the kitchen light."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "switch_light",
        "description": "Switches a light.",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "enum": ["kitchen", "hall"]},
                "on": {"type": "boolean"},
            },
            "required": ["room", "on"],
            "additionalProperties": False,
        },
    },
}


class Light(BaseModel):
    """What a strict answer holds."""

    room: str
    on: bool


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    ports = ("--port", "0", "--http-port", "0", "--dashboard-port", "0")
    with up_process(tmp_path_factory.mktemp("stack"), "--no-demo", *ports) as up:
        up.start().wait_until_serving()
        up.run("tenants", "add", TENANT)
        demo = str(ROOT / "demo" / ADAPTER)
        up.run("adapters", "add", demo, "--alias", ADAPTER, "--tenant", TENANT)
        key = (up.home / "keys" / f"{TENANT}.key").read_text().strip()
        url = f"http://{up.state['http_address']}/v1"
        with openai.OpenAI(api_key=key, base_url=url, max_retries=0) as made:
            yield made
        assert up.stop() == 0
        assert up.leftovers() == []


def complete(client, **fields):
    return client.chat.completions.create(
        **{"model": BASE, "messages": ASK, "max_tokens": 24, **fields}
    )


def test_models_are_the_base_the_router_and_the_adapter(client):
    models = {model.id: model for model in client.models.list()}
    assert list(models) == [BASE, "auto", ADAPTER]
    assert models[ADAPTER].parent == BASE


def test_a_stream_says_what_the_whole_answer_says(client):
    whole = complete(client, model=ADAPTER)
    assert whole.edgelora["adapters"][0]["id"] == ADAPTER
    chunks = list(
        complete(client, model=ADAPTER, stream=True, stream_options={"include_usage": True})
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0
    assert whole.edgelora["times"]["engine_s"] > 0


def test_the_strength_decides_between_the_base_and_the_adapter(client):
    base = complete(client).choices[0].message.content
    off = complete(client, model=ADAPTER, extra_body={"adapter_strength": 0})
    full = complete(client, model=f"{BASE}:{ADAPTER}")
    mixed = complete(client, extra_body={"adapters": [{"id": ADAPTER, "weight": 1}]})
    assert off.choices[0].message.content == base
    assert full.choices[0].message.content == mixed.choices[0].message.content != base


def test_log_probabilities_are_of_the_tokens_that_were_said(client):
    answer = complete(client, logprobs=True, top_logprobs=3, max_tokens=8)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    spelled = b"".join(bytes(entry.bytes) for entry in entries)
    assert spelled.decode(errors="replace").startswith(answer.choices[0].message.content)
    for entry in entries:
        # Greedy: the token is the likeliest one.
        assert entry.top_logprobs[0].logprob == entry.logprob <= 0
        assert len(entry.top_logprobs) == 3
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-6
    text = client.completions.create(model=BASE, prompt="One, two,", logprobs=2, max_tokens=4)
    assert "".join(text.choices[0].logprobs.tokens) == text.choices[0].text


def test_a_strict_answer_satisfies_its_schema(client):
    answer = client.chat.completions.parse(
        model=BASE, messages=ASK, response_format=Light, max_tokens=60
    )
    assert answer.choices[0].message.parsed is not None
    free = complete(client, response_format={"type": "json_object"})
    assert free.choices[0].message.content.startswith("{")


def test_a_tool_that_must_be_called_is_called_with_right_arguments(client):
    for choice in ("required", {"type": "function", "function": {"name": "switch_light"}}):
        answer = complete(
            client, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, max_tokens=80
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == "switch_light"
        arguments = Light.model_validate_json(call.function.arguments)
        assert arguments.room in ("kitchen", "hall")


def test_a_session_finds_its_tokens_again(client):
    long = [{"role": "user", "content": "Tell me about lamps. " * 20}]
    extra = {"session": "talk"}
    first = complete(client, messages=long, extra_body=extra)
    said = {"role": "assistant", "content": first.choices[0].message.content}
    more = [*long, said, {"role": "user", "content": "And more."}]
    second = complete(client, messages=more, extra_body=extra)
    assert second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens // 2
    assert client.delete("/sessions/talk", cast_to=object)["forgotten"] >= 1


def test_what_the_model_cannot_take_is_400_with_numbers_p05_p09(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, messages=[{"role": "user", "content": "lamp " * 20_000}])
    assert caught.value.code == "prompt_too_long"
    assert sum(word.strip(":,.").isdigit() for word in caught.value.message.split()) >= 2
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, extra_body={"stop_token_ids": [151_645]})
    assert "stop_token_ids" in caught.value.param


def test_hostile_schemas_are_400_and_a_running_stream_goes_on_x05_x06(client):
    stream = complete(client, stream=True, max_tokens=48)
    next(stream)
    for schema in (
        {"type": "string", "pattern": "\0abc"},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "a{99999999}"},
        {"type": "nonsense"},
        {"$ref": "#/$defs/missing"},
    ):
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        with pytest.raises(openai.BadRequestError) as caught:
            complete(client, response_format=wanted)
        assert caught.value.param.startswith("response_format"), schema
    *_, last = stream
    assert last.choices[0].finish_reason in ("stop", "length")


def test_auto_tells_what_the_router_chose(client):
    answer = complete(client, model="auto")
    routing = answer.edgelora["routing"]
    assert [adapter["id"] for adapter in routing["adapters"]] == [ADAPTER]
    assert routing["reason"] in ("best", "resident")
    assert answer.edgelora["adapters"][0]["weight"] == routing["adapters"][0]["share"]
