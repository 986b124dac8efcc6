"""POST /v1/completions."""

import openai
import pytest

from tests.support.openai_node import BASE, events_of

pytestmark = pytest.mark.integration


async def test_a_prompt_is_continued_without_a_template(node):
    async with node.client() as client:
        answer = await client.completions.create(model=BASE, prompt=["Once"], max_tokens=5)
    assert answer.object == "text_completion"
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Hello there.", "stop")
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    call = await node.worker.calls.get()
    assert call.request.input.prompt == "Once"
    assert call.request.options.stop.max_tokens == 5


async def test_a_stream_has_texts_a_reason_the_usage_and_done(node):
    async with node.http() as http:
        answer = await http.post(
            "/completions",
            json={
                "model": "home",
                "prompt": "Once",
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        )
    *chunks, last = events_of(answer.text)
    assert last == "[DONE]"
    *texts, reason, usage = chunks
    assert [chunk["choices"][0]["text"] for chunk in texts] == ["Hello", " there", "."]
    assert texts[0]["edgelora"]["adapters"][0]["digest"] == node.digest
    assert reason["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3)


async def test_log_probabilities_have_offsets_that_go_on(node):
    body = {"model": BASE, "prompt": "Once", "logprobs": 1}
    async with node.http() as http:
        whole = (await http.post("/completions", json=body)).json()
        stream = await http.post("/completions", json={**body, "stream": True})
    found = whole["choices"][0]["logprobs"]
    assert found == {
        "tokens": ["Hello", " there", "."],
        "token_logprobs": [-0.5] * 3,
        "top_logprobs": [{"Hello": -0.5}, {" there": -0.5}, {".": -0.5}],
        "text_offset": [0, 5, 11],
    }
    chunks = [chunk["choices"][0]["logprobs"] for chunk in events_of(stream.text)[:-2]]
    assert [chunk["text_offset"] for chunk in chunks] == [[0], [5], [11]]


async def test_a_stream_that_is_cut_ends_with_an_error_and_no_done(node):
    node.worker.ends_without_finished = True
    async with node.http() as http:
        answer = await http.post(
            "/completions", json={"model": BASE, "prompt": "Once", "stream": True}
        )
    *chunks, last = events_of(answer.text)
    assert last["error"]["code"] == "worker_lost"
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)


REFUSED = [
    ({}, "prompt"),
    ({"prompt": None}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": "  \n"}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [999999]}, "prompt"),
    ({"prompt": ["a", "b"]}, "prompt"),
    ({"prompt": "a\0b"}, "prompt"),
    ({"prompt": "a", "echo": True, "logprobs": 5, "max_tokens": 0}, "max_tokens"),
    ({"prompt": "a", "echo": True}, "echo"),
    ({"prompt": "a", "suffix": "b"}, "suffix"),
    ({"prompt": "a", "logprobs": 10**9}, "logprobs"),
]


async def test_what_is_no_prompt_is_refused_by_name_p03_p04_p05_p06(node):
    async with node.client() as client:
        for fields, param in REFUSED:
            with pytest.raises(openai.BadRequestError) as caught:
                await client.post("/completions", body={"model": BASE, **fields}, cast_to=object)
            assert caught.value.param == param, fields
    assert node.worker.calls.empty()
