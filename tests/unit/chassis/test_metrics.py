"""The registry and the listener of a process: bounded, and never in the way of the event loop."""

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.registry import Collector
from structlog.testing import capture_logs

from services.chassis.interceptor import EndedCall
from services.chassis.metrics import Metrics, counter, counters, gauge, gauges
from services.chassis.settings import ConfigError, Settings
from tests.support.prometheus import families, needs_prometheus, promtool, samples

ANY = "127.0.0.1:0"


def ended(method="/edgelora.v1.GatewayService/Chat", code="OK", reason=None):
    return EndedCall(method=method, code=code, reason=reason, duration_s=0.02)


async def shown(metrics):
    return await asyncio.to_thread(metrics.text)


async def fetch(port, path="/metrics"):
    def get():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.headers, response.read()

    return await asyncio.to_thread(get)


async def test_a_process_tells_what_it_is_and_uses():
    text = await shown(Metrics("gateway", ANY))
    values = samples(text)
    assert values["process_resident_memory_bytes"] > 2**20
    assert values["process_open_fds"] > 2
    assert values["edgelora_process_threads"] >= 1
    assert values["edgelora_event_loop_lag_seconds"] >= 0
    (build,) = [series for series in values if series.startswith("edgelora_build_info")]
    assert 'service="gateway"' in build


@needs_prometheus
async def test_promtool_has_nothing_to_say():
    metrics = Metrics("gateway", ANY)
    metrics.calls.note_end(ended(code="NOT_FOUND", reason="ADAPTER_NOT_FOUND"))
    done = promtool("check", "metrics", text=await shown(metrics))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_calls_are_counted_by_method_code_and_reason():
    metrics = Metrics("gateway", ANY)
    metrics.calls.note_end(ended())
    metrics.calls.note_end(ended(code="NOT_FOUND", reason="ADAPTER_NOT_FOUND"))
    values = samples(await shown(metrics))
    name = "edgelora_rpc_duration_seconds_count"
    assert values[f'{name}{{code="OK",rpc="GatewayService/Chat"}}'] == 1
    assert values[f'{name}{{code="NOT_FOUND",rpc="GatewayService/Chat"}}'] == 1
    errors = [series for series in values if series.startswith("edgelora_rpc_errors_total")]
    assert errors == [
        'edgelora_rpc_errors_total{reason="adapter_not_found",rpc="GatewayService/Chat"}'
    ]


async def test_what_is_unknown_is_absent_and_not_0():
    metrics = Metrics("monitor", ANY)
    metrics.read_on_loop(
        lambda: [
            gauge("edgelora_known", "x", 0.0),
            gauge("edgelora_unknown", "x", None),
            gauges("edgelora_some", "x", "which", {"known": 0.0, "unknown": None}),
            counter("edgelora_events_total", "x", 3),
            counters("edgelora_kinds_total", "x", "kind", {"a": 1}),
        ]
    )
    text = await shown(metrics)
    values = samples(text)
    assert values["edgelora_known"] == 0.0
    assert "edgelora_unknown" not in values
    assert 'edgelora_some{which="known"}' in values
    assert 'edgelora_some{which="unknown"}' not in values
    assert families(text)["edgelora_unknown"] == "gauge"
    assert values["edgelora_events_total"] == 3
    assert values['edgelora_kinds_total{kind="a"}'] == 1


async def test_readers_run_on_the_event_loop():
    metrics, threads = Metrics("gateway", ANY), []

    def read():
        threads.append(threading.current_thread())
        return []

    metrics.read_on_loop(read)
    await shown(metrics)
    assert threads == [threading.main_thread()]


async def test_a_reader_that_fails_costs_its_part_alone():
    metrics = Metrics("gateway", ANY)
    metrics.read_on_loop(lambda: [gauge("edgelora_x", "x", 1 / 0)])
    with capture_logs() as logs:
        values = samples(await shown(metrics))
    assert "edgelora_process_threads" in values
    assert "edgelora_event_loop_lag_seconds" not in values
    assert [line["event"] for line in logs] == ["metrics_not_read"]


async def test_a_loop_that_is_stuck_leaves_its_part_out_and_the_scrape_ends(monkeypatch):
    """That absence is what the alert EdgeLoraEventLoopStuck looks for."""
    monkeypatch.setattr("services.chassis.metrics._ANSWER_S", 0.05)
    metrics = Metrics("gateway", ANY)
    texts = []
    thread = threading.Thread(target=lambda: texts.append(metrics.text()))
    thread.start()
    thread.join()  # the loop does nothing meanwhile
    values = samples(texts[0])
    assert "edgelora_process_threads" in values
    assert "edgelora_event_loop_lag_seconds" not in values
    assert "edgelora_event_loop_lag_seconds" in samples(await shown(metrics))


async def test_the_listener_answers_prometheus_and_is_gone_afterwards():
    metrics = Metrics("gateway", ANY)
    async with metrics.serving() as listener:
        headers, body = await fetch(listener.bound_port)
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "edgelora_build_info" in body.decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await fetch(listener.bound_port, "/")
    assert not [thread for thread in threading.enumerate() if thread.name == "metrics"]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", listener.bound_port)) != 0


async def test_an_address_in_use_is_said():
    async with Metrics("gateway", ANY).serving() as listener:
        address = f"127.0.0.1:{listener.bound_port}"
        with pytest.raises(OSError, match=f"cannot listen on {address}"):
            async with Metrics("scheduler", address).serving():
                pass


async def test_clients_that_are_slow_or_silent_keep_nobody_out_for_long(monkeypatch):
    monkeypatch.setattr("services.chassis.metrics_listener._CALL_S", 0.2)
    async with Metrics("gateway", ANY).serving() as listener:
        place = ("127.0.0.1", listener.bound_port)
        silent = [socket.create_connection(place) for _ in range(20)]
        try:
            # All but four were turned away at once, those four after the time they have.
            assert await asyncio.to_thread(lambda: [each.recv(1) for each in silent]) == [b""] * 20
            _, body = await fetch(listener.bound_port)
            assert body
        finally:
            for each in silent:
                each.close()


async def test_a_head_without_an_end_is_refused():
    async with Metrics("gateway", ANY).serving() as listener:

        def flood():
            with socket.create_connection(("127.0.0.1", listener.bound_port)) as client:
                try:
                    for _ in range(64):
                        client.sendall(b"x" * 4096)
                    return client.recv(1)
                except OSError:
                    return b""

        assert await asyncio.to_thread(flood) == b""
        await fetch(listener.bound_port)


async def test_the_loop_goes_on_while_a_scrape_is_made():
    """A scrape that takes as long as it likes: the loop waits for it at no time."""
    metrics, gate = Metrics("gateway", ANY), threading.Event()

    class Slow(Collector):
        def collect(self):
            gate.wait()
            return []

    metrics.registry.register(Slow())
    async with metrics.serving() as listener:
        scrape = asyncio.create_task(fetch(listener.bound_port))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not scrape.done()
        gate.set()
        _, body = await scrape
        assert body


@pytest.mark.parametrize("text", ["9464", "localhost", "127.0.0.1:x", ":9464", "h:99999", "h:-1"])
def test_an_address_that_is_none_is_refused(text):
    settings = Settings({"P_METRICS_ADDRESS": text}, "P_")
    assert settings.listen_address("METRICS_ADDRESS") is None
    with pytest.raises(ConfigError, match="P_METRICS_ADDRESS must be host:port"):
        settings.finish()


@pytest.mark.parametrize("text", ["127.0.0.1:9464", "[::1]:0", "0.0.0.0:65535"])
def test_an_address_is_taken_as_it_is(text):
    settings = Settings({"P_METRICS_ADDRESS": text}, "P_")
    assert settings.listen_address("METRICS_ADDRESS") == text
    settings.finish()


def test_no_address_is_off():
    assert Settings({"P_METRICS_ADDRESS": ""}, "P_").listen_address("METRICS_ADDRESS") is None


async def test_the_clock_of_intervals_is_monotonic(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: -1e9)
    values = samples(await shown(Metrics("gateway", ANY)))
    assert values["edgelora_event_loop_lag_seconds"] >= 0
