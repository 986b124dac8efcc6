"""What the stream tells: the node as it is, unknown where nobody answers, never what was typed."""

import asyncio
import json

import pytest

from edgelora.errors import QuotaExceededError
from tests.support.dashboard_client import dashboard_client, node_where
from tests.support.gateway_bench import gateway_bench

pytestmark = pytest.mark.integration

TYPED = "what nobody else may read"


async def test_history_comes_first_and_then_the_node_again_and_again(operator):
    async with operator.stream() as events:
        name, history = await anext(events)
        assert name == "history"
        first = await node_where(events, lambda node: True)
        second = await node_where(events, lambda node: True)
    assert second["at"] > first["at"]
    assert all(point["at"] < first["at"] for point in history)
    assert second["point"]["at"] == second["at"]


async def test_the_stream_is_not_buffered_and_not_kept(operator):
    async with operator.http.stream("GET", "/dash/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-store"


async def test_what_nobody_tells_is_unknown_and_never_zero(operator, gateway):
    """There is no monitor, and then no worker that is ready."""
    await gateway.worker_host.set_ready(False)
    async with operator.stream() as events:
        node = await node_where(events, lambda node: node["engine"] is None)
    assert node["device"] is None
    assert node["use"] is None
    assert {state["level"] for state in node["pressure"].values()} == {"unknown"}
    assert {state["reading"] for state in node["pressure"].values()} == {None}
    point = node["point"]
    for name in ("share", "tokens_per_s", "temperature", "frequency", "battery", "memory"):
        assert point[name] is None, name


async def test_latencies_and_queues_move_with_the_requests(operator, gateway):
    client = await gateway.client()
    async with operator.stream() as events:
        await node_where(events, lambda node: "interactive" not in node["latency"])
        gateway.worker.hold_after = 1
        answer = aiter(client.chat([("user", TYPED)]))
        for _ in range(2):
            await anext(answer)

        def num_running(node):
            return {queue["class"]: queue["num_running"] for queue in node["queues"] or ()}

        await node_where(events, lambda node: num_running(node).get("interactive") == 1)
        gateway.worker.go_on.set()
        async for _ in answer:
            pass
        node = await node_where(events, lambda node: "interactive" in node["latency"])
    latency = node["latency"]["interactive"]
    assert latency["first_token"]["num_values"] == 1
    assert 0 < latency["first_token"]["p50"] == latency["first_token"]["p99"]
    assert latency["output_token"]["p95"] > 0
    assert node["point"]["first_token_p95"]["interactive"] == latency["first_token"]["p95"]


async def test_a_refusal_is_told_without_what_was_typed(operator, gateway):
    client = await gateway.client(max_concurrent_requests=1)
    gateway.worker.hold_after = 0
    running = aiter(client.chat([("user", TYPED)]))
    await anext(running)
    with pytest.raises(QuotaExceededError):
        await anext(aiter(client.chat([("user", TYPED)])))
    gateway.worker.go_on.set()
    async for _ in running:
        pass
    async with operator.stream() as events:
        node = await node_where(events, lambda node: node["refusals"])
    (refusal,) = node["refusals"]
    assert refusal["tenant"] == "acme"
    assert refusal["class"] == "interactive"
    assert refusal["reason"] == "TENANT_QUOTA_EXCEEDED"
    assert refusal["rule"] == "max_concurrent_requests"
    assert TYPED not in json.dumps(node)


async def test_the_device_and_its_pressure_are_told_with_reasons():
    async with gateway_bench() as bench:
        sysfs = await asyncio.to_thread(bench.start_monitor)
        sysfs.add_zone(0, "x86_pkg_temp", 47_500)
        sysfs.add_cpu(0, 2_400_000, 3_600_000)
        sysfs.add_supply("BAT0", type="Battery", capacity=76, status="Discharging")
        await bench.start()
        async with dashboard_client(bench.dashboard_port) as operator:
            await operator.login(bench.operator_key)
            async with operator.stream() as events:
                node = await node_where(
                    events, lambda node: node["pressure"]["temperature"]["level"] == "elevated"
                )
                assert node["device"]["temperature"] == 47.5
                assert node["device"]["frequency"] == 2.4e9
                assert node["device"]["battery"]["charge"] == 0.76
                assert "47.5" in node["pressure"]["temperature"]["explanation"]
                sysfs.write("sys/class/thermal/thermal_zone0/temp", 65_000)
                node = await node_where(
                    events, lambda node: node["pressure"]["temperature"]["level"] == "critical"
                )
    (newest, older) = [
        change for change in node["pressure_changes"] if change["dimension"] == "temperature"
    ][:2]
    assert (newest["level"], older["level"]) == ("critical", "elevated")
    assert "65" in newest["explanation"]
    assert node["point"]["temperature"] == 65.0


async def test_a_logout_ends_the_streams_of_the_session(operator):
    async with operator.stream() as events:
        await node_where(events, lambda node: True)
        await operator.post("/logout")
        with pytest.raises(AssertionError, match="the stream has ended"):
            await node_where(events, lambda node: False)


async def test_the_seventeenth_stream_is_refused_until_one_is_closed(operator):
    streams = [operator.http.stream("GET", "/dash/stream") for _ in range(16)]
    for stream in streams:
        answer = await stream.__aenter__()
        assert answer.status_code == 200
    refused = await operator.http.get("/dash/stream")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    await streams.pop().__aexit__(None, None, None)
    while (
        await operator.http.send(operator.http.build_request("GET", "/dash/stream"), stream=True)
    ).status_code == 503:
        pass
    for stream in streams:
        await stream.__aexit__(None, None, None)


async def test_readers_that_leave_before_the_body_take_no_place_along_S12(operator):
    cookie = "; ".join(f"{name}={value}" for name, value in operator.http.cookies.items())
    request = f"GET /dash/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
    for _ in range(40):
        _, writer = await asyncio.open_connection("127.0.0.1", operator.port)
        writer.write(request.encode())
        writer.transport.abort()
    while True:
        async with operator.http.stream("GET", "/dash/stream") as answer:
            if answer.status_code == 200:
                return


async def test_open_streams_do_not_hold_the_gateway_up():
    async with gateway_bench() as bench:
        await bench.start_store()
        await bench.start_worker()
        await asyncio.to_thread(bench.start_scheduler)
        process = await bench.start_gateway_process()
        async with dashboard_client(bench.dashboard_port) as operator:
            await operator.login(bench.operator_key)
            async with operator.stream() as events:
                await node_where(events, lambda node: True)
                assert await asyncio.to_thread(process.stop) == 0
                with pytest.raises(AssertionError, match="the stream has ended"):
                    await node_where(events, lambda node: False)


async def test_the_tenants_api_needs_both_the_login_and_a_tenants_key(operator, gateway):
    assert (await operator.http.get("/v1/models")).status_code == 401
    await gateway.client()
    (authorization,) = gateway.authorization()
    models = await operator.http.get("/v1/models", headers=[authorization])
    assert models.status_code == 200
    assert models.json()["data"][0]["id"] == "stand-in"


async def test_without_a_key_of_the_operators_there_is_no_dashboard():
    async with gateway_bench() as bench:
        await bench.start(OPERATOR_KEY_FILE="")
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", bench.dashboard_port)
