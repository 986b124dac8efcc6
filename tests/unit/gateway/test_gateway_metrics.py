"""What the gateway counts of generations and HTTP calls; a bounded number of series."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from edgelora.errors import AdapterNotFoundError, CancelledRequestError, QuotaExceededError
from edgelora.v1.generation_pb2 import PriorityClass
from services.gateway.ended_generation import EndedGeneration
from services.gateway.http.observed_app import ObservedApp
from services.gateway.metrics import GatewayMetrics
from tests.support.prometheus import samples

PRIORITIES = [value for value in PriorityClass.values() if value]


def ended(number=0, **changes):
    values = {
        "tenant_id": f"tenant-{number}",
        "priority": PriorityClass.PRIORITY_CLASS_INTERACTIVE,
        "adapter_digests": (f"sha256:{number:064x}",),
        "queue_s": 0.02,
        "time_to_first_token_s": 0.2,
        "total_s": 1.2,
        "num_prompt_tokens": 7,
        "num_output_tokens": 11,
        "engine_s": 0.5,
        "degradations": (),
        "error": None,
        **changes,
    }
    return EndedGeneration(**values)


@pytest.fixture
async def metrics():
    return GatewayMetrics("127.0.0.1:0")


async def shown(metrics):
    return samples(await asyncio.to_thread(metrics.text))


async def test_a_whole_answer(metrics):
    metrics.note_end(ended())
    values = await shown(metrics)
    of = '{priority="interactive"}'
    assert values['edgelora_generations_total{end="ok",priority="interactive"}'] == 1
    assert values[f"edgelora_time_to_first_token_seconds_sum{of}"] == pytest.approx(0.2)
    assert values[f"edgelora_time_per_output_token_seconds_sum{of}"] == pytest.approx(0.1)
    assert values[f"edgelora_queue_time_seconds_sum{of}"] == pytest.approx(0.02)
    assert values[f"edgelora_generation_duration_seconds_sum{of}"] == pytest.approx(1.2)
    assert values['edgelora_tokens_total{kind="prompt",priority="interactive"}'] == 7
    assert values['edgelora_tokens_total{kind="output",priority="interactive"}'] == 11
    assert values[f"edgelora_generation_engine_seconds_total{of}"] == pytest.approx(0.5)


async def test_other_ends_say_how_and_count_no_time_that_was_not(metrics):
    nothing = {"queue_s": None, "time_to_first_token_s": None, "num_output_tokens": 0}
    batch = PriorityClass.PRIORITY_CLASS_BATCH
    metrics.note_end(ended(error=CancelledRequestError("x")))
    metrics.note_end(ended(error=AdapterNotFoundError("x"), priority=batch, **nothing))
    values = await shown(metrics)
    assert values['edgelora_generations_total{end="cancelled",priority="interactive"}'] == 1
    assert values['edgelora_generations_total{end="adapter_not_found",priority="batch"}'] == 1
    assert 'edgelora_time_to_first_token_seconds_count{priority="batch"}' not in values
    assert not any(series.startswith("edgelora_generation_duration_seconds") for series in values)


@pytest.mark.parametrize("key", ["max_concurrent_requests", "max_tokens_per_minute"])
async def test_a_quota_is_named(metrics, key):
    error = QuotaExceededError("x", metadata={"reserved_tokens": "5", key: "1"})
    metrics.note_end(ended(error=error))
    assert (await shown(metrics))[f'edgelora_quota_refusals_total{{quota="{key}"}}'] == 1


async def test_10000_tenants_and_adapters_make_no_series_more(metrics):
    for priority in PRIORITIES:
        metrics.note_end(ended(priority=priority))
    before = set(await shown(metrics))
    for number in range(10_000):
        metrics.note_end(ended(number, priority=PRIORITIES[number % 3]))
    assert set(await shown(metrics)) == before


def app():
    async def answer(request):
        return PlainTextResponse("x", status_code=int(request.query_params.get("status", 200)))

    async def fail(request):
        raise RuntimeError("x")

    return Starlette(
        routes=[
            Route("/v1/models/{model}", answer, methods=["GET", "POST"]),
            Route("/fail", fail),
            Mount("/static", routes=[Route("/{name}", answer)]),
        ]
    )


async def test_http_calls_go_by_the_template_of_their_route(metrics):
    client = TestClient(metrics.observed(app(), "tenants"), raise_server_exceptions=False)
    for number in range(50):
        client.get(f"/v1/models/m{number}")
        client.get(f"/nowhere/{number}")
        client.get(f"/static/{number}")
        client.request(f"X{number}", f"/v1/models/{number}")
    client.get("/v1/models/x?status=429")
    client.get("/fail")
    values = await shown(metrics)
    prefix = "edgelora_http_duration_seconds_count"
    counted = {series: value for series, value in values.items() if series.startswith(prefix)}
    assert counted == {
        f'{prefix}{{door="tenants",method="GET",route="/v1/models/{{model}}",status="200"}}': 50,
        f'{prefix}{{door="tenants",method="GET",route="none",status="404"}}': 50,
        f'{prefix}{{door="tenants",method="GET",route="/{{name}}",status="200"}}': 50,
        f'{prefix}{{door="tenants",method="other",route="/v1/models/{{model}}",status="405"}}': 50,
        f'{prefix}{{door="tenants",method="GET",route="/v1/models/{{model}}",status="429"}}': 1,
        f'{prefix}{{door="tenants",method="GET",route="/fail",status="500"}}': 1,
    }


async def test_a_client_that_left_before_the_answer_has_no_status():
    calls = []

    async def never(scope, receive, send):
        await asyncio.Event().wait()

    observed = ObservedApp(never, calls.append)
    task = asyncio.create_task(observed({"type": "http", "method": "GET"}, None, None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(call.status, call.route) for call in calls] == [(None, "none")]
