"""POST /v1/responses."""

import openai
import pytest

from edgelora.v1.generation_pb2 import FinishReason
from tests.support.openai_node import BASE, events_of

pytestmark = pytest.mark.integration


async def test_an_input_with_instructions_is_answered(node):
    async with node.client() as client:
        answer = await client.responses.create(
            model="home", input="Hi.", instructions="Be brief.", max_output_tokens=9
        )
    assert (answer.output_text, answer.status) == ("Hello there.", "completed")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)
    assert answer.edgelora["adapters"][0]["digest"] == node.digest
    call = await node.worker.calls.get()
    messages = call.request.input.conversation.messages
    assert [(item.role, item.content) for item in messages] == [
        ("system", "Be brief."),
        ("user", "Hi."),
    ]
    assert call.request.options.stop.max_tokens == 9


async def test_a_stream_builds_the_same_response(node):
    async with node.client() as client, client.responses.stream(model=BASE, input="Hi.") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [event.type for event in events if event.type != "response.output_text.delta"] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert deltas == ["Hello", " there", "."]
    assert (final.output_text, final.status) == ("Hello there.", "completed")
    assert final.usage.total_tokens == 10


async def test_log_probabilities_come_when_they_are_included(node):
    async with node.client() as client:
        answer = await client.responses.create(
            model=BASE, input="Hi.", include=["message.output_text.logprobs"], top_logprobs=1
        )
    entry = answer.output[0].content[0].logprobs[0]
    assert (entry.token, entry.logprob, entry.top_logprobs[0].token) == ("Hello", -0.5, "Hello")


async def test_an_answer_that_was_cut_by_its_limit_is_incomplete(node):
    node.worker.finish_reason = FinishReason.FINISH_REASON_LENGTH
    async with node.client() as client:
        answer = await client.responses.create(model=BASE, input="Hi.")
        assert (answer.status, answer.incomplete_details.reason) == (
            "incomplete",
            "max_output_tokens",
        )
        stream = await client.responses.create(model=BASE, input="Hi.", stream=True)
        assert [event.type async for event in stream][-1] == "response.incomplete"


async def test_a_stream_that_is_cut_ends_with_an_error_and_is_never_completed(node):
    node.worker.ends_without_finished = True
    async with node.http() as http:
        answer = await http.post("/responses", json={"model": BASE, "input": "Hi.", "stream": True})
    *events, last = events_of(answer.text)
    assert (last["type"], last["code"]) == ("error", "worker_lost")
    assert last["sequence_number"] == len(events)
    assert not [event for event in events if event["type"].endswith((".completed", ".done"))]
    async with node.client() as client:
        with pytest.raises(openai.APIError, match="gone"):
            async for _ in await client.responses.create(model=BASE, input="Hi.", stream=True):
                pass


REFUSED = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"background": True}, "background"),
    ({"conversation": "c"}, "conversation"),
    ({"truncation": "auto"}, "truncation"),
    ({"include": ["reasoning.encrypted_content"]}, "include"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    ({"input": [{"role": "user", "content": " "}]}, "input[0].content"),
    ({"input": "", "instructions": "Be brief."}, "input"),
    ({"temperature": 9}, "temperature"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
]


async def test_what_is_not_served_is_refused_by_name(node):
    async with node.http() as http:
        for fields, param in REFUSED:
            answer = await http.post("/responses", json={"model": BASE, "input": "Hi.", **fields})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), fields
    assert node.worker.calls.empty()
