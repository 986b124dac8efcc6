"""POST /v1/chat/completions."""

import openai
import pytest

from edgelora.errors import PromptTooLongError, QueueFullError
from edgelora.v1.generation_pb2 import FinishReason, PriorityClass
from tests.support.openai_node import BASE, HELLO, chat_body, events_of

pytestmark = pytest.mark.integration


async def test_a_whole_answer_tells_what_was_said_served_and_used(node):
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body(model="home"))
    document = answer.json()
    request_id = answer.headers["x-request-id"]
    assert document["id"] == f"chatcmpl-{request_id}"
    assert (document["object"], document["model"]) == ("chat.completion", "home")
    assert document["system_fingerprint"] == "fp_" + "b" * 16
    assert document["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there.", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert document["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert document["edgelora"]["request_id"] == request_id
    assert document["edgelora"]["adapters"] == [
        {"id": "home", "digest": node.digest, "weight": 1.0, "version_of": None}
    ]
    assert (document["edgelora"]["degradations"], document["edgelora"]["routing"]) == ([], None)
    assert answer.headers["x-edgelora-adapters"] == f"{node.digest};strength=1"
    assert "x-edgelora-degraded" not in answer.headers


async def test_a_stream_is_a_role_texts_a_reason_the_usage_and_done(node):
    async with node.http() as http:
        answer = await http.post(
            "/chat/completions",
            json=chat_body(stream=True, stream_options={"include_usage": True}),
        )
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-edgelora-adapters"] == "none"
    *chunks, last = events_of(answer.text)
    assert last == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    first, *texts, reason, usage = chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["edgelora"]["request_id"] == answer.headers["x-request-id"]
    assert [chunk["choices"][0]["delta"]["content"] for chunk in texts] == ["Hello", " there", "."]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in (first, *texts))
    assert all(chunk["usage"] is None for chunk in (first, *texts, reason))
    assert (reason["choices"][0]["delta"], reason["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 10)


async def test_without_asking_there_is_no_usage_in_a_stream(node):
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body(stream=True))
    *chunks, _ = events_of(answer.text)
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


async def test_every_wish_reaches_the_worker_or_the_scheduler(node):
    async with node.http() as http:
        answer = await http.post(
            "/chat/completions",
            json=chat_body(
                model=f"{BASE}:home",
                adapter_strength=0.5,
                temperature=0.7,
                top_p=0.9,
                seed=3,
                stop="END",
                max_completion_tokens=1e9,
                presence_penalty=0.5,
                priority="background",
                session="kitchen",
                user="ann",
            ),
        )
    assert answer.status_code == 200
    call = await node.worker.calls.get()
    (adapter,) = call.ticket.adapters
    assert (adapter.digest, adapter.strength) == (node.digest, 0.5)
    assert call.ticket.priority == PriorityClass.PRIORITY_CLASS_BACKGROUND
    options = call.request.options
    assert (options.sampling.temperature, options.sampling.top_p) == (0.7, 0.9)
    assert (options.sampling.seed, options.sampling.presence_penalty) == (3, 0.5)
    assert list(options.stop.stop_strings) == ["END"]
    assert call.request.session == "kitchen"
    assert node.bench.store.users[-1] == "ann"
    assert call.request.input.conversation.messages[0].content == "Hi."


async def test_a_weighted_sum_of_adapters_goes_with_the_base(node):
    async with node.http() as http:
        wanted = [{"id": "home", "weight": 0.25}]
        answer = await http.post("/chat/completions", json=chat_body(adapters=wanted))
        assert answer.json()["edgelora"]["adapters"][0]["weight"] == 0.25
        wanted = [{"id": "home", "weight": 3}]
        answer = await http.post("/chat/completions", json=chat_body(adapters=wanted))
    assert answer.json()["error"]["param"] == "adapters[0].weight"


async def test_log_probabilities_have_texts_and_bytes(node):
    node.worker.script = ["é", "!"]
    body = chat_body(logprobs=True, top_logprobs=2)
    async with node.http() as http:
        whole = (await http.post("/chat/completions", json=body)).json()
        stream = await http.post("/chat/completions", json={**body, "stream": True})
    content = whole["choices"][0]["logprobs"]["content"]
    assert content[0] == {
        "token": "é",
        "logprob": -0.5,
        "bytes": [0xC3, 0xA9],
        "top_logprobs": [
            {"token": "é", "logprob": -0.5, "bytes": [0xC3, 0xA9]},
            {"token": "é~", "logprob": -1.5, "bytes": [0xC3, 0xA9, 0x7E]},
        ],
    }
    pieces = [
        chunk["choices"][0]["logprobs"]["content"]
        for chunk in events_of(stream.text)[:-1]
        if chunk["choices"][0]["logprobs"]
    ]
    assert [entry for piece in pieces for entry in piece] == content


async def test_an_answer_that_was_cut_by_its_limit_says_so(node):
    node.worker.finish_reason = FinishReason.FINISH_REASON_LENGTH
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body(max_tokens=3))
    assert answer.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_before_the_first_token_has_its_own_status(node, stream):
    async with node.client() as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="nobody", messages=HELLO, stream=stream)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        node.worker.failure = PromptTooLongError("the prompt has 9 tokens and may have 8")
        with pytest.raises(openai.BadRequestError, match="9 tokens and may have 8"):
            await client.chat.completions.create(model=BASE, messages=HELLO, stream=stream)
        node.worker.failure = QueueFullError("the queue is full", retry_after_s=2.5)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model=BASE, messages=HELLO, stream=stream)
        assert caught.value.response.headers["retry-after"] == "3"
        assert caught.value.code == "queue_full"


async def test_a_stream_that_is_cut_ends_with_an_error_and_never_looks_whole(node):
    node.worker.ends_without_finished = True
    async with node.http() as http:
        answer = await http.post(
            "/chat/completions",
            json=chat_body(stream=True, stream_options={"include_usage": True}),
        )
    assert answer.status_code == 200
    *chunks, last = events_of(answer.text)
    assert last["error"]["code"] == "worker_lost"
    assert answer.text.split("\n\n")[-2].startswith("event: error\n")
    assert "[DONE]" not in answer.text
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)
    async with node.client() as client:
        read = []
        with pytest.raises(openai.APIError, match="gone"):
            async for chunk in await client.chat.completions.create(
                model=BASE, messages=HELLO, stream=True
            ):
                read.append(chunk.choices[0].delta.content)
    assert "".join(text or "" for text in read) == "Hello there."


async def test_a_whole_answer_that_is_cut_is_an_error(node):
    node.worker.ends_without_finished = True
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "worker_lost"
