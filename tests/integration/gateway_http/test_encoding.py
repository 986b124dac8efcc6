"""Embeddings and classification over HTTP, asked by the clients people have."""

from __future__ import annotations

import asyncio

import httpx
import ollama
import openai
import pytest
from langchain_openai import OpenAIEmbeddings

from tests.support.openai_node import HELLO, OpenAiNode
from tests.support.standin_encoder import vector_of

pytestmark = pytest.mark.integration

ENCODER = "stand-in-encoder"
TEXTS = ["What is left?", "Send it."]


@pytest.fixture
async def node(bench):
    return OpenAiNode(bench, await bench.start_with_encoder())


def near(*texts):
    return [pytest.approx(vector_of(text), abs=1e-6) for text in texts]


async def test_openai_embeds_in_both_forms(node):
    async with node.client() as client:
        for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            for model in (ENCODER, "intents", f"{ENCODER}:intents", node.digest):
                answer = await client.embeddings.create(model=model, input=TEXTS, **form)
                if form.get("encoding_format") != "base64":  # else the client leaves it as it is
                    assert [each.embedding for each in answer.data] == near(*TEXTS)
                assert [each.index for each in answer.data] == [0, 1]
                assert answer.model == model
                assert answer.usage.prompt_tokens == answer.usage.total_tokens == 9
        one = await client.embeddings.create(model=ENCODER, input=TEXTS[0], encoding_format="float")
        assert [each.embedding for each in one.data] == near(TEXTS[0])


async def test_langchain_and_ollama_embed(node):
    async with openai.DefaultAsyncHttpxClient() as http:
        embeddings = OpenAIEmbeddings(
            model=ENCODER,
            base_url=node.url,
            api_key=node.key,
            check_embedding_ctx_length=False,
            http_async_client=http,
        )
        assert await embeddings.aembed_documents(TEXTS) == near(*TEXTS)
        assert await embeddings.aembed_query(TEXTS[1]) == near(TEXTS[1])[0]
    headers = {"Authorization": f"Bearer {node.key}"}
    async with ollama.AsyncClient(node.root, headers=headers) as client:
        answer = await client.embed(model=f"{ENCODER}:latest", input=TEXTS)
        assert answer.embeddings == near(*TEXTS)
        assert answer.prompt_eval_count == 9
        one = await client.embed(model="intents", input=TEXTS[0])
        assert one.embeddings == near(TEXTS[0])
        old = await client.embeddings(model=ENCODER, prompt=TEXTS[0])
        assert old.embedding == near(TEXTS[0])[0]
        with pytest.raises(ollama.ResponseError, match="longer than the encoder's context"):
            await client.embed(model=ENCODER, input="word " * 100, truncate=False)
        models = {each.model for each in (await client.list()).models}
        assert {"stand-in:latest", f"{ENCODER}:latest", "intents:latest"} <= models
        assert (await client.show("intents")).capabilities == ["embedding"]
        assert (await client.show("stand-in")).capabilities == ["completion", "tools"]


async def test_classify_tells_labels_and_what_is_out_of_scope(node):
    node.bench.encoder.is_out_of_scope = True
    async with node.http() as http:
        body = {"model": "intents", "input": ["word " * 100, "Hi"], "top": 2}
        answer = await http.post("/classify", json=body)
    assert answer.status_code == 200
    assert answer.headers["x-edgelora-adapters"] == f"{node.digest};strength=1"
    document = answer.json()
    first = document["data"][0]
    assert (first["label"], first["probability"], first["out_of_scope"]) == (
        "balance",
        pytest.approx(0.75),
        True,
    )
    assert [each["label"] for each in first["labels"]] == ["balance", "transfer"]
    assert document["usage"] == {"prompt_tokens": 19, "total_tokens": 19}
    assert document["edgelora"]["truncated_texts"] == 1
    assert document["edgelora"]["request_id"] == answer.headers["x-request-id"]


WRONG = [
    ("embeddings", {"input": "x"}, 400, "model"),
    ("embeddings", {"model": ENCODER}, 400, "input"),
    ("embeddings", {"model": ENCODER, "input": []}, 400, "input"),
    ("embeddings", {"model": ENCODER, "input": ""}, 400, "input"),
    ("embeddings", {"model": ENCODER, "input": ["x", ""]}, 400, "input[1]"),
    ("embeddings", {"model": ENCODER, "input": [1, 2]}, 400, "input"),
    ("embeddings", {"model": ENCODER, "input": [[1, 2]]}, 400, "input"),
    ("embeddings", {"model": ENCODER, "input": "x", "dimensions": 2}, 400, "dimensions"),
    ("embeddings", {"model": ENCODER, "input": "x", "encoding_format": "x"}, 400, None),
    ("embeddings", {"model": "intents", "input": "x", "adapter_strength": 3}, 400, None),
    ("embeddings", {"model": ENCODER, "input": "x", "adapter_strength": 1}, 400, None),
    ("embeddings", {"model": "nobody", "input": "x"}, 404, "model"),
    ("embeddings", {"model": "auto", "input": "x"}, 400, "model"),
    ("embeddings", {"model": "stand-in", "input": "x"}, 400, "model"),
    ("embeddings", {"model": "email", "input": "x"}, 409, "model"),
    ("classify", {"model": ENCODER, "input": "x"}, 400, "model"),
    ("classify", {"model": "intents", "input": "x", "top": 0}, 400, "top"),
    ("classify", {"model": "intents", "input": ["x"] * 6, "top": 1000}, 400, "top"),
    (
        "chat/completions",
        {"model": ENCODER, "messages": HELLO},
        400,
        "model",
    ),
    (
        "chat/completions",
        {"model": "intents", "messages": HELLO},
        409,
        "model",
    ),
]


async def test_what_is_wrong_is_named(node):
    node.bench.store.digests["acme", "email"] = "sha256:" + "d" * 64
    async with node.http() as http:
        for path, body, status, field in WRONG:
            answer = await http.post(f"/{path}", json=body)
            assert answer.status_code == status, (path, body, answer.text)
            assert answer.json()["error"]["param"] == field or field is None, (path, body)
        too_many = await http.post("/embeddings", json={"model": ENCODER, "input": ["x"] * 65})
    assert too_many.json()["error"]["message"].startswith("input must hold 1 to 64 at once")
    assert node.bench.encoder.calls.empty()


async def test_models_say_whose_adapters_they_are(node):
    async with node.http() as http:
        models = {each["id"]: each for each in (await http.get("/models")).json()["data"]}
        one = (await http.get(f"/models/{ENCODER}:intents")).json()
    assert list(models) == ["stand-in", ENCODER, "auto", "intents"]
    assert models["intents"]["parent"] == one["parent"] == ENCODER


async def test_a_client_that_leaves_ends_the_encoding(node):
    node.bench.encoder.go_on = asyncio.Event()
    async with node.http() as http:
        asked = asyncio.create_task(http.post("/embeddings", json={"model": ENCODER, "input": "x"}))
        call = await node.bench.encoder.calls.get()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    await call.ended.wait()
    await node.bench.wait_until_idle()


async def test_strangers_and_a_node_without_an_encoder(bench):
    await bench.start()
    await bench.client()
    node = OpenAiNode(bench, "")
    body = {"model": ENCODER, "input": "x"}
    async with node.http() as http:
        answer = await http.post("/embeddings", json=body)
        assert answer.status_code == 404
        assert "edgelora up --encoder" in answer.json()["error"]["message"]
        assert (await http.post("/classify", json=body)).status_code == 404
    async with httpx.AsyncClient(base_url=node.url, trust_env=False) as stranger:
        assert (await stranger.post("/embeddings", json=body)).status_code == 401
