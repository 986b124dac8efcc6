"""What models there are, asked with the `ollama` client."""

from __future__ import annotations

import json

import ollama
import pytest

from tests.support.ollama_node import BASE

pytestmark = pytest.mark.integration


async def test_the_list_has_the_base_model_and_the_callers_adapters(node, client):
    models = {model.model: model for model in (await client.list()).models}
    assert set(models) == {f"{BASE}:latest", "auto:latest", "home:latest"}
    base, home = models[f"{BASE}:latest"], models["home:latest"]
    assert base.details.family == "script"
    assert base.details.parameter_size == "134.00M"
    assert base.size == 96_000_000
    assert home.details.parent_model == f"{BASE}:latest"
    assert f"sha256:{home.digest}" == node.digest


async def test_nobody_sees_the_models_of_another_tenant(node):
    await node.bench.client("other")
    async with ollama.AsyncClient(
        node.url, headers={"Authorization": f"Bearer {node.bench.keys['other']}"}
    ) as other:
        assert [model.model for model in (await other.list()).models] == [
            f"{BASE}:latest",
            "auto:latest",
        ]
        for ask in (other.show, other.pull, other.generate):
            with pytest.raises(ollama.ResponseError) as refused:
                await ask("home")
            assert refused.value.status_code == 404


@pytest.mark.parametrize("name", ["home", "home:latest", f"{BASE}:home", f"{BASE}:home:latest"])
async def test_an_adapter_is_shown_by_each_of_its_names(client, name):
    shown = await client.show(name)
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo["adapter.type"] == "lora"
    assert shown.modelinfo["general.description"] == "switches lights"
    assert shown.details.parent_model == f"{BASE}:latest"
    assert "ADAPTER sha256:" in shown.modelfile


@pytest.mark.parametrize("name", [BASE, f"{BASE}:latest", "auto"])
async def test_the_base_model_tells_its_context_and_its_defaults(client, name):
    shown = await client.show(name)
    architecture = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{architecture}.context_length"] == 2048
    assert "num_predict 256" in shown.parameters.splitlines()
    assert "adapter.type" not in shown.modelinfo


async def test_only_the_base_model_is_always_loaded(client):
    (model,) = (await client.ps()).models
    assert (model.model, model.context_length) == (f"{BASE}:latest", 2048)


async def test_pulling_what_is_there_succeeds_and_nothing_else_comes(client):
    assert (await client.pull("home")).status == "success"
    lines = [line async for line in await client.pull(f"{BASE}:latest", stream=True)]
    assert lines[0].status == "pulling manifest"
    assert lines[1].completed == lines[1].total == 96_000_000
    assert lines[-1].status == "success"
    for name in (
        "llama3.2:latest",
        "llama3.2:1b",
        "nobody",
        f"{BASE}:nobody",
        "library/x",
        "..",
        ":x",
    ):
        with pytest.raises(ollama.ResponseError) as refused:
            await client.pull(name)
        assert refused.value.status_code == 404
        assert name not in refused.value.error


async def test_models_are_not_changed_here(node, client):
    changes = (
        client.create("mine", from_=BASE),
        client.copy("home", "mine"),
        client.delete("home"),
        client.push("home"),
    )
    for change in changes:
        with pytest.raises(ollama.ResponseError, match="edgelora adapters") as refused:
            await change
        assert refused.value.status_code == 403
    with pytest.raises(ollama.ResponseError, match="has no encoder") as refused:
        await client.embed("home", "hello")
    assert refused.value.status_code == 400
    assert node.digest in node.bench.store.adapters["acme"]


async def test_without_a_key_there_is_only_the_greeting(node):
    async with ollama.AsyncClient(node.url) as stranger:
        for ask in (stranger.list(), stranger.ps(), stranger.show("home"), stranger.chat("home")):
            with pytest.raises(ollama.ResponseError) as refused:
                await ask
            assert refused.value.status_code == 401
    wire = node.wire()
    greeting = await wire.call("GET", "/")
    # Many clients compare these words.
    assert (greeting.status, greeting.body) == (200, b"Ollama is running")
    assert (await wire.call("HEAD", "/")).status == 200
    version = json.loads((await wire.call("GET", "/api/version")).body)["version"]
    assert [part.isdigit() for part in version.split(".")] == [True] * 3
    await wire.close()


async def test_an_unknown_path_and_a_wrong_method_have_this_dialects_errors(node):
    wire = node.wire()
    unknown = await wire.call("POST", "/api/nothing", b"{}")
    assert unknown.status == 404
    assert isinstance(json.loads(unknown.body)["error"], str)
    wrong = await wire.call("GET", "/api/chat")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert isinstance(json.loads(wrong.body)["error"], str)
    await wire.close()
