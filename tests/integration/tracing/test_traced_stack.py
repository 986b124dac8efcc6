"""A request in one trace from the door to the engine, as a collector gets it."""

import itertools
import json
import signal
import urllib.request

import pytest

from services.chassis.base_model import BaseModel
from tests.support.adapter_files import config_bytes, safetensors_bytes, tensors
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.up_process import prepared_model, up_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CANARY = "zebra-quartz-canary"
ALIAS = "quince-alias-canary"
LAST_OF_EACH = {
    *("GatewayService/Chat", "SchedulerService/Release"),
    *("InferenceService/Generate", "AdapterStoreService/FetchAdapter"),
}
"""Spans that end last in their process; each sends its own."""


@pytest.fixture(scope="module")
def receiver():
    made = OtlpReceiver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(receiver, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tracing")
    settings = {"EDGELORA_OTLP_ENDPOINT": receiver.endpoint}
    arguments = ("--no-demo", "--port", "0", "--http-port", "0", "--dashboard-port", "0")
    with up_process(directory, *arguments, settings=settings) as up:
        up.start().wait_until_serving()
        up.run("tenants", "add", "acme")
        model = BaseModel.load(prepared_model())
        named = tensors(seed=3, targets=model.targets, num_layers=model.num_layers, scale=0.15)
        adapter = directory / "adapter"
        adapter.mkdir()
        (adapter / "adapter_config.json").write_bytes(config_bytes())
        (adapter / "adapter_model.safetensors").write_bytes(safetensors_bytes(named))
        up.run("adapters", "add", str(adapter), "--alias", ALIAS, "--tenant", "acme")
        chat = ("chat", "--tenant", "acme", "-a", ALIAS, "--max-tokens", "8")
        up.run(*chat, "-m", f"{CANARY} one")
        yield up
        assert up.stop(signal.SIGTERM) in (0, -signal.SIGTERM, 143)


def one(spans, service, name):
    (found,) = [span for span in spans if (span.service, span.name) == (service, name)]
    return found


def trace_of_the_chat(receiver):
    """All spans of the trace in which a generation with an adapter ran, the release included."""

    def is_whole(spans):
        chats = [span for span in spans if span.name == "chat"]
        names = {span.name for span in spans if chats and span.trace_id == chats[0].trace_id}
        return names >= LAST_OF_EACH

    spans = receiver.wait_for(is_whole)
    chat = next(span for span in spans if span.name == "chat")
    return [span for span in spans if span.trace_id == chat.trace_id]


def test_one_trace_goes_through_gateway_scheduler_store_and_worker(stack, receiver):
    spans = trace_of_the_chat(receiver)
    assert {span.service for span in spans} == {
        *("gateway", "scheduler", "adapter_store", "inference")
    }
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if not span.parent_id]
    assert [(root.service, root.name) for root in roots] == [("gateway", "GatewayService/Chat")]
    assert all(span.parent_id in by_id for span in spans if span.parent_id)

    def parent_of(service, name):
        above = by_id[one(spans, service, name).parent_id]
        return above.service, above.name

    assert parent_of("gateway", "chat") == ("gateway", "GatewayService/Chat")
    assert parent_of("gateway", "queue") == ("gateway", "chat")
    assert parent_of("scheduler", "SchedulerService/Acquire") == ("gateway", "chat")
    assert parent_of("scheduler", "wait") == ("scheduler", "SchedulerService/Acquire")
    resolve = "AdapterStoreService/ResolveAdapters"
    assert parent_of("adapter_store", resolve) == ("scheduler", "SchedulerService/Acquire")
    generate = ("inference", "InferenceService/Generate")
    assert parent_of(*generate) == ("gateway", "chat")
    assert parent_of("adapter_store", "AdapterStoreService/FetchAdapter") == generate
    for phase in ("load", "queue", "prefill", "decode"):
        assert parent_of("inference", phase) == generate


def test_times_are_in_order_and_inside_of_what_is_above(stack, receiver):
    spans = trace_of_the_chat(receiver)
    phases = [one(spans, "inference", name) for name in ("load", "queue", "prefill", "decode")]
    assert all(span.begin_ns <= span.end_ns for span in spans)
    for earlier, later in itertools.pairwise(phases):
        assert earlier.end_ns == pytest.approx(later.begin_ns, abs=1000)
    generate = one(spans, "inference", "InferenceService/Generate")
    assert phases[0].begin_ns >= generate.begin_ns
    assert one(spans, "inference", "load").end_ns - phases[0].begin_ns > 0


def test_a_generation_says_what_it_was_by_the_conventions_for_models(stack, receiver):
    spans = trace_of_the_chat(receiver)
    chat = one(spans, "gateway", "chat")
    listed = stack.run_json("adapters", "list", "--tenant", "acme")["adapters"]
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "edgelora"
    assert chat.attributes["gen_ai.request.model"] == listed[0]["digest"]
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    assert 1 <= chat.attributes["gen_ai.usage.output_tokens"] <= 8
    assert chat.attributes["edgelora.priority"] == "interactive"
    decode = one(spans, "inference", "decode")
    assert (
        decode.attributes["gen_ai.usage.output_tokens"]
        == (chat.attributes["gen_ai.usage.output_tokens"])
    )
    assert not any(span.is_error for span in spans)


def test_http_calls_are_traced_by_their_route_and_errors_say_why(stack, receiver):
    key = (stack.home / "keys/acme.key").read_text().strip()
    body = {"model": f"{CANARY}", "messages": [{"role": "user", "content": CANARY}]}
    request = urllib.request.Request(
        f"http://{stack.state['http_address']}/v1/chat/completions?{CANARY}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request)
    name = "POST /v1/chat/completions"
    spans = receiver.wait_for(lambda spans: any(span.name == name for span in spans))
    call = one(spans, "gateway", name)
    assert call.attributes["http.response.status_code"] == 404
    assert not call.parent_id
    stack.run("chat", "--tenant", "acme", "-a", f"{CANARY}-x", "-m", "x", status=1)
    spans = receiver.wait_for(lambda spans: any(span.is_error for span in spans))
    failed = next(span for span in spans if span.name == "chat" and span.is_error)
    assert failed.attributes["error.type"] == "ADAPTER_NOT_FOUND"


def test_nothing_anybody_typed_is_in_any_trace_T14(stack, receiver):
    assert receiver.bodies
    for body in receiver.bodies:
        for text in (CANARY, ALIAS, "acme"):
            assert text.encode() not in body


def test_what_services_ask_each_other_by_themselves_is_not_traced(stack, receiver):
    names = {span.name for span in receiver.spans}
    for poll in ("WatchPressure", "GetQueues", "SetRunLimits", "ReportResidency", "Renew"):
        assert not [name for name in names if name.endswith(poll)]
