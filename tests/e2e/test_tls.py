"""A stack whose gateway speaks TLS: a key, a client certificate, and nothing in clear text."""

from __future__ import annotations

import socket
import ssl
import urllib.request

import pytest

from tests.support.certificate_authority import CertificateAuthority
from tests.support.free_port import free_port
from tests.support.up_process import up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    ca = CertificateAuthority(directory)
    node = ca.server()
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "EDGELORA_GATEWAY_TLS_CERT_FILE": str(node.certificate),
        "EDGELORA_GATEWAY_TLS_KEY_FILE": str(node.key),
        "EDGELORA_GATEWAY_TLS_CLIENT_CA_FILE": str(ca.file),
        "EDGELORA_GATEWAY_MUTUAL_TLS_ADDRESS": address,
        "EDGELORA_GATEWAY_POWER_WATTS": "5",
    }
    arguments = (
        "--no-demo",
        "--host",
        "0.0.0.0",
        "--port",
        "0",
        "--http-port",
        "0",
        "--dashboard-port",
        "0",
    )
    with up_process(directory, *arguments, settings=settings) as up:
        up.start().wait_until_serving()
        yield up, ca, address
        assert up.stop() == 0


def test_a_tenant_chats_over_tls_and_not_without(tls):
    up, ca, _ = tls
    assert "https://" in up.output
    up.run("tenants", "add", "garage")
    trusting = ("--tenant", "garage", "--ca-file", str(ca.file))
    answer = up.run_json("chat", "--message", "Say hi", "--max-tokens", "4", *trusting)
    assert answer["text"]
    assert "no node answers" in up.run("status", "--tenant", "garage", status=1)
    status = up.run_json("status", *trusting)
    assert status["usage"]["num_output_tokens"] > 0
    (total,) = up.run_json("tenants", "usage", "garage")
    assert total["engine_s"] > 0
    assert total["energy_joules"] == pytest.approx(5 * total["engine_s"], abs=0.01)

    context = ssl.create_default_context(cafile=str(ca.file))
    key = (up.home / "keys" / "garage.key").read_text().strip()
    request = urllib.request.Request(
        f"https://{up.state['http_address']}/v1/models",
        headers={"authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, context=context, timeout=30) as response:
        assert response.status == 200


def test_only_the_dashboard_stays_on_the_machines_own_address(tls):
    up, _, _ = tls

    def answers_elsewhere(address):
        with socket.socket() as other:
            return other.connect_ex(("127.0.0.2", int(address.rpartition(":")[2]))) == 0

    assert answers_elsewhere(up.state["gateway_address"])
    assert answers_elsewhere(up.state["http_address"])
    assert not answers_elsewhere(up.state["dashboard_address"])


def test_no_network_without_tls(tmp_path):
    with up_process(tmp_path, "--no-demo", "--host", "0.0.0.0") as up:
        up.start()
        assert up.process.wait() == 1
    assert "EDGELORA_GATEWAY_TLS_CERT_FILE" in up.errors


def test_a_certificate_stands_for_the_key(tls):
    up, ca, address = tls
    spiffe_id = "spiffe://home/tenant/car"
    up.run("tenants", "add", "car", "--spiffe-id", spiffe_id)
    (up.home / "keys" / "car.key").unlink()
    car = ca.client("car", spiffe_id)
    shown = (
        *("--address", address, "--ca-file", str(ca.file)),
        *("--cert-file", str(car.certificate), "--key-file", str(car.key)),
    )
    assert up.run_json("status", *shown)["usage"]["tenant_id"] == "car"
