"""docs/configuration.md, the services' settings and the launcher's wiring say the same."""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgelora.local_stack.layout import ENCODER
from edgelora.local_stack.layout import SERVICES as GENERATING
from edgelora.local_stack.wiring import (
    PREFIXES,
    Wiring,
    process_environment,
    service_environments,
)
from services.chassis.settings import ConfigError, Settings

SERVICES = (*GENERATING, ENCODER)
MODULES = {ENCODER: "inference.encoder"}
DOCUMENT = (Path(__file__).resolve().parents[3] / "docs/configuration.md").read_text()


def documented(service):
    """Variable -> (default cell, meaning), from the service's table."""
    section = re.search(rf"^## {service}\n(.*?)(?=^## |\Z)", DOCUMENT, re.M | re.S)[1]
    rows = re.findall(r"^\| `(EDGELORA_\w+)` \| (.+?) \| (.+) \|$", section, re.M)
    return {variable: (default, meaning) for variable, default, meaning in rows}


def config_class(service):
    module = importlib.import_module(f"services.{MODULES.get(service, service)}.config")
    (found,) = (
        value
        for name, value in vars(module).items()
        if name.endswith("Config") and value.__module__ == module.__name__
    )
    return module, found


def known_variables(service, monkeypatch):
    """Every variable the service's own reader asks for."""
    module, found = config_class(service)
    asked = set()

    class Recorder(Settings):
        def _raw(self, name):
            asked.add(self._prefix + name)
            return super()._raw(name)

    monkeypatch.setattr(module, "Settings", Recorder)
    with pytest.raises(ConfigError):
        found.from_env({})
    return asked


@pytest.fixture
def wiring(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0" * 64)
    return Wiring(
        addresses={name: f"unix:/run/{name}.sock" for name in SERVICES},
        http_address="127.0.0.1:8080",
        dashboard_address="127.0.0.1:8081",
        admin_address="unix:/run/admin.sock",
        seal_key_file=secret,
        operator_key_file=secret,
        redis_url="unix://edgelora-store@/run/redis.sock",
        redis_password_file=secret,
        model_dir=Path("/models/m"),
        encoder_dir=Path("/models/e"),
        store_dir=Path("/adapters"),
        remotes_file=Path("/remotes.toml"),
        router_file=Path("/router.safetensors"),
        gateway_dir=Path("/gateway"),
        pids_dir=Path("/pids"),
        metrics_addresses={},
    )


@pytest.fixture
def environments(wiring):
    addresses = dict.fromkeys(SERVICES, "127.0.0.1:0")
    return service_environments(replace(wiring, metrics_addresses=addresses))


@pytest.mark.parametrize("service", SERVICES)
def test_the_document_lists_exactly_the_settings_of_the_service(service, monkeypatch):
    assert set(documented(service)) == known_variables(service, monkeypatch)


@pytest.mark.parametrize("service", SERVICES)
def test_documented_defaults_are_the_real_ones(service, environments):
    _, found = config_class(service)
    required = {
        variable: environments[service][variable]
        for variable, (default, _) in documented(service).items()
        if default == "*required*"
    }
    usual = found.from_env(required)
    for variable, (default, _) in documented(service).items():
        if not default.startswith("*"):
            value = default.strip("`")
            assert found.from_env({**required, variable: value}) == usual, variable


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_documented_as_required_is(service, environments):
    _, found = config_class(service)
    with pytest.raises(ConfigError) as caught:
        found.from_env({})
    missing = set(re.findall(r"^(\w+) is required$", str(caught.value), re.M))
    assert missing == {
        variable
        for variable, (default, _) in documented(service).items()
        if default == "*required*"
    }


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_documented_as_wired_is_what_the_launcher_sets(service, environments):
    wired = {name for name, (_, meaning) in documented(service).items() if "*wired*" in meaning}
    assert wired == set(environments[service])


@pytest.mark.parametrize("service", SERVICES)
def test_the_launcher_sets_only_what_the_service_takes(service, environments):
    config_class(service)[1].from_env(environments[service])


@pytest.mark.parametrize(
    ("missing", "model"), [(ENCODER, "encoder_dir"), ("inference", "model_dir")]
)
def test_a_node_needs_one_of_the_two_models(wiring, missing, model):
    addresses = {name: wiring.addresses[name] for name in SERVICES if name != missing}
    found = service_environments(replace(wiring, addresses=addresses, **{model: None}))
    assert found.keys() == addresses.keys()
    for service, environ in found.items():
        config_class(service)[1].from_env(environ)
        assert f"unix:/run/{missing}.sock" not in "".join(environ.values())


def test_prefixes_are_the_services_own():
    assert {name: config_class(name)[0].PREFIX for name in SERVICES} == PREFIXES


def test_a_service_sees_its_own_settings_and_none_of_the_launchers_secrets(environments):
    launcher = {
        "PATH": "/bin",
        "EDGELORA_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LD_PRELOAD": "/tmp/evil.so",
        "PYTHONPATH": "/tmp",
        "EDGELORA_SCHEDULER_LEASE": "10s",
        "EDGELORA_SCHEDULER_ADDRESS": "0.0.0.0:1",
        "EDGELORA_INFERENCE_THREADS": "1",
        "EDGELORA_LOG_LEVEL": "debug",
    }
    environ = process_environment("scheduler", environments["scheduler"], launcher)
    assert environ["EDGELORA_SCHEDULER_LEASE"] == "10s"
    assert environ["EDGELORA_SCHEDULER_ADDRESS"] == "unix:/run/scheduler.sock"
    assert environ["EDGELORA_LOG_LEVEL"] == "debug"
    unwanted = {"EDGELORA_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PYTHONPATH"}
    assert not (unwanted | {"EDGELORA_INFERENCE_THREADS"}) & set(environ)
