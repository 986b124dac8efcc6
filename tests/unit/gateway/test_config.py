"""Settings of the gateway."""

from __future__ import annotations

import pytest

from services.chassis.settings import ConfigError
from services.gateway.config import GatewayConfig


@pytest.fixture
def environ(tmp_path):
    key = tmp_path / "seal.key"
    key.write_bytes(b"k" * 32)
    return {
        "EDGELORA_GATEWAY_ADMIN_ADDRESS": "unix:/run/admin.sock",
        "EDGELORA_GATEWAY_DIRECTORY": str(tmp_path),
        "EDGELORA_GATEWAY_SCHEDULER_ADDRESS": "unix:/run/scheduler.sock",
        "EDGELORA_GATEWAY_STORE_ADDRESS": "unix:/run/store.sock",
        "EDGELORA_GATEWAY_MONITOR_ADDRESS": "unix:/run/monitor.sock",
        "EDGELORA_GATEWAY_INFERENCE_ADDRESS": "unix:/run/inference.sock",
        "EDGELORA_GATEWAY_SEAL_KEY_FILE": str(key),
    }


def test_defaults(environ):
    config = GatewayConfig.from_env(environ)
    assert config.address == "127.0.0.1:50051"
    assert config.seal_key == b"k" * 32
    assert "kkk" not in repr(config)
    assert (config.default_deadline_s, config.max_deadline_s) == (60.0, 600.0)
    assert config.client_stall_s == 30.0


def test_every_mistake_is_told_at_once(environ):
    del environ["EDGELORA_GATEWAY_STORE_ADDRESS"]
    environ |= {"EDGELORA_GATEWAY_MAX_UPLOAD": "a lot", "EDGELORA_GATEWAY_PORT": "1"}
    with pytest.raises(ConfigError) as caught:
        GatewayConfig.from_env(environ)
    for name in ("STORE_ADDRESS", "MAX_UPLOAD", "PORT"):
        assert f"EDGELORA_GATEWAY_{name}" in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:50052", "0.0.0.0:1", "localhost:1", "dns:///x"])
def test_the_admin_door_is_never_on_a_network(environ, address):
    environ["EDGELORA_GATEWAY_ADMIN_ADDRESS"] = address
    with pytest.raises(ConfigError, match="unix socket"):
        GatewayConfig.from_env(environ)


def test_tls_takes_both_files_and_client_certificates_their_authority(environ):
    assert GatewayConfig.from_env(environ).tls is None
    for half in ("CERT", "KEY", "CLIENT_CA"):
        with pytest.raises(ConfigError, match="belong together"):
            GatewayConfig.from_env({**environ, f"EDGELORA_GATEWAY_TLS_{half}_FILE": "/x"})
    both = {
        **environ,
        "EDGELORA_GATEWAY_TLS_CERT_FILE": "/node.crt",
        "EDGELORA_GATEWAY_TLS_KEY_FILE": "/node.key",
    }
    assert GatewayConfig.from_env(both).tls.client_ca is None
    mutual = {**both, "EDGELORA_GATEWAY_MUTUAL_TLS_ADDRESS": "0.0.0.0:50061"}
    with pytest.raises(ConfigError, match="TLS_CLIENT_CA_FILE"):
        GatewayConfig.from_env(mutual)
    mutual["EDGELORA_GATEWAY_TLS_CLIENT_CA_FILE"] = "/ca.crt"
    assert GatewayConfig.from_env(mutual).mutual_tls_address == "0.0.0.0:50061"


def test_an_unknown_power_is_none(environ):
    assert GatewayConfig.from_env(environ).power_watts is None
    environ["EDGELORA_GATEWAY_POWER_WATTS"] = "0"
    assert GatewayConfig.from_env(environ).power_watts is None
    environ["EDGELORA_GATEWAY_POWER_WATTS"] = "7.5"
    assert GatewayConfig.from_env(environ).power_watts == 7.5
