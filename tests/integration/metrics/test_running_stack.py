"""A stack as `edgelora up --metrics` starts it, read by a real Prometheus."""

import json
import re
import socket
import subprocess
import sys

import psutil
import pytest
import yaml

from tests.support.prometheus import (
    ALERTS,
    ROOT,
    Prometheus,
    families,
    grafana_expressions,
    names_in,
    needs_prometheus,
    promtool,
    samples,
    scrape,
)
from tests.support.up_process import up_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CANARY = "zebra-quartz-canary"
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/edgelora.json").read_text())
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DOCUMENT = (ROOT / "docs/metrics.md").read_text()
SERVICES = {"monitor", "adapter_store", "inference", "scheduler", "gateway"}


class Stack:
    """A launcher, what it showed, and some use of it."""

    def __init__(self, up):
        self.up = up
        self.addresses = up.state["metrics_addresses"]

    def scrapes(self):
        """Service -> what it shows now."""
        return {service: scrape(address) for service, address in self.addresses.items()}

    def http(self, method, path, **headers):
        """Sends one HTTP request to the tenants' door and reads its status."""
        host, _, port = self.up.state["http_address"].rpartition(":")
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            return client.recv(4096).split(b" ")[1]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    directory = tmp_path_factory.mktemp("metrics")
    settings = {"EDGELORA_INFERENCE_VLLM_METRICS": "true", "EDGELORA_LOG_LEVEL": "debug"}
    arguments = ("--metrics", "--no-demo", "--port", "0", "--http-port", "0")
    with up_process(directory, *arguments, "--dashboard-port", "0", settings=settings) as up:
        up.start().wait_until_serving()
        running = Stack(up)
        up.run("tenants", "add", "acme")
        up.run("chat", "--tenant", "acme", "--max-tokens", "8", "-m", f"{CANARY} one")
        up.run("chat", "--tenant", "acme", "-a", CANARY, "-m", "x", status=1)
        running.http("GET", f"/v1/{CANARY}", authorization=f"Bearer {CANARY}")
        running.http("GET", f"/v1/models/{CANARY}", authorization=f"Bearer {CANARY}")
        running.http(CANARY.upper(), f"/v1/models?{CANARY}")
        yield running
        assert up.stop() == 0


@pytest.fixture(scope="module")
def prometheus(stack, tmp_path_factory):
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), stack.addresses)
    try:
        server.wait_for(f'count(up{{job="edgelora"}} == 1) == {len(SERVICES)}')
        yield server
    finally:
        server.close()


def test_up_shows_and_writes_where_every_service_is_read(stack):
    assert set(stack.addresses) == SERVICES
    for service, address in stack.addresses.items():
        line = rf"^metrics +http://{re.escape(address)}/metrics\b.*\b{service}\b"
        assert re.search(line, stack.up.output, re.M)
        assert address.startswith("127.0.0.1:")


@needs_prometheus
def test_promtool_has_nothing_to_say_of_any_service(stack):
    for service, text in stack.scrapes().items():
        done = promtool("check", "metrics", text=text)
        said = done.stdout.decode() + done.stderr.decode()
        # vLLM's names have a colon, which is its choice.
        assert [line for line in said.splitlines() if not line.startswith("vllm:")] == [], service
        assert done.returncode == 0 or service == "inference"


@needs_prometheus
def test_a_real_prometheus_reads_all_and_answers(prometheus):
    versions = prometheus.query("edgelora_build_info")
    assert {labels["service"] for labels, _ in versions} == SERVICES
    assert all(labels["process"] == labels["service"] for labels, _ in versions)
    # Every service is read at a time of its own: what one shows may be news to the others.
    for true in (
        'sum(edgelora_generations_total{end="ok"}) == 1',
        'edgelora_tokens_total{kind="output"} >= 1',
        # The worker's own first token, before it was ready, is nobody's.
        'sum(edgelora_adapter_output_tokens_total{adapter="base"})'
        ' - sum(edgelora_tokens_total{kind="output"}) == 1',
        "sum(vllm:request_success_total) == 1",
        "abs(sum(edgelora_adapter_step_seconds_total) / sum(edgelora_engine_step_seconds_sum) - 1)"
        " < 0.02",
    ):
        prometheus.wait_for(true)
    ((_, refused),) = prometheus.query("edgelora_authentication_failures_total")
    assert refused >= 1
    ((_, wrong),) = prometheus.query('edgelora_generations_total{end="adapter_not_found"}')
    assert wrong == 1


@needs_prometheus
def test_every_expression_is_answered_without_an_error(prometheus):
    for expression in grafana_expressions(DASHBOARD) + [rule["expr"] for rule in RULES]:
        prometheus.query(expression)


@needs_prometheus
def test_the_rules_are_loaded_and_none_fires_on_a_node_that_is_well(prometheus):
    loaded = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == {rule["alert"] for rule in RULES}
    assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}
    # Many generations of this test end in an error on purpose, but in none of ours.
    assert prometheus.query('ALERTS{alertstate="firing"}') == []


def test_every_name_in_rules_and_dashboard_is_shown(stack):
    shown = {name for text in stack.scrapes().values() for name in families(text)}
    for expression in grafana_expressions(DASHBOARD) + [rule["expr"] for rule in RULES]:
        assert names_in(expression) <= shown, expression


def test_the_dashboard_leaves_nothing_of_our_own_out(stack):
    shown = {
        name
        for text in stack.scrapes().values()
        for name in families(text)
        if name.startswith("edgelora_")
    }
    drawn = {name for each in grafana_expressions(DASHBOARD) for name in names_in(each)}
    assert shown - drawn == set()


def test_the_document_lists_exactly_what_each_service_shows(stack):
    sections = dict(re.findall(r"^## (Every process|\w+)\n(.*?)(?=^## |\Z)", DOCUMENT, re.M | re.S))
    listed = {
        name: dict(re.findall(r"^\| `(\S+)` \| (\w+) \|", text, re.M))
        for name, text in sections.items()
    }
    for service, text in stack.scrapes().items():
        assert families(text) == listed["Every process"] | listed[service], service


def test_the_document_names_every_label(stack):
    labels = dict(re.findall(r"^\| `(\S+)` \| \w+ \| ([^|]*?) \|", DOCUMENT, re.M))
    for text in stack.scrapes().values():
        kinds = families(text)
        for series in samples(text):
            name, _, inside = series.partition("{")
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            used = set(re.findall(r'(\w+)="', inside)) - {"le"}
            assert used == set(filter(None, labels[family].split(", "))), series


def test_nothing_anybody_typed_is_in_any_metric_T14(stack):
    for service, text in stack.scrapes().items():
        assert CANARY not in text.decode().lower(), service
        assert "acme" not in text.decode(), service


def test_only_metrics_is_there_and_only_to_be_read_T20(stack):
    for address in stack.addresses.values():
        host, _, port = address.rpartition(":")
        for request, status in {
            b"GET / HTTP/1.1\r\n\r\n": b"404",
            b"GET /metrics/ HTTP/1.1\r\n\r\n": b"404",
            b"GET /debug/pprof HTTP/1.1\r\n\r\n": b"404",
            b"POST /metrics HTTP/1.1\r\n\r\n": b"405",
            b"DELETE /metrics HTTP/1.1\r\n\r\n": b"405",
            b"HEAD /metrics HTTP/1.1\r\n\r\n": b"200",
        }.items():
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(request)
                assert client.recv(4096).split(b" ")[1] == status


def test_without_the_option_nothing_listens_for_scrapes_T20(tmp_path):
    arguments = ("--no-demo", "--port", "0", "--http-port", "0", "--dashboard-port", "0")
    with up_process(tmp_path, *arguments) as up:
        up.start().wait_until_serving()
        assert up.state["metrics_addresses"] == {}
        assert "/metrics" not in up.output
        doors = {
            int(up.state[name].rpartition(":")[2])
            for name in ("gateway_address", "http_address", "dashboard_address")
        }
        listening = {
            connection.laddr.port
            for pid in up.pids().values()
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == doors
        assert up.stop() == 0


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_without_the_option_the_client_library_is_not_even_loaded(service):
    code = f"import services.{service}.__main__, sys; print('prometheus_client' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
