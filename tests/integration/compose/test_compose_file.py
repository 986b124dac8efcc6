"""docker-compose.yml: valid by the Compose specification, and closed where it should be."""

import importlib
import importlib.util
import re
from pathlib import Path

import compose_spec
import pytest
import yaml

from edgelora.local_stack.redis_rights import acl_line
from edgelora.local_stack.wiring import Wiring, service_environments
from tests.support.compose_file import ROOT, interpolated_text, load_compose

pytestmark = pytest.mark.integration

COMPOSE = load_compose({"EDGELORA_ENCODER": "1"})
CONTAINERS = COMPOSE["services"]
SERVICES = {
    name: each
    for name, each in CONTAINERS.items()
    if each.get("profiles", ["encoder"]) == ["encoder"]
}
"""What starts with the profile `encoder`."""
OUR_SERVICES = ("gateway", "scheduler", "adapter_store", "inference", "encoder", "monitor")
MODULES = {"encoder": "inference.encoder"}
ONLY_LOCAL = {
    "EDGELORA_INFERENCE_SHARED_BLOB_DIRECTORY",
    "EDGELORA_ENCODER_SHARED_BLOB_DIRECTORY",
    "EDGELORA_MONITOR_RUN_DIRECTORY",
}
"""Settings that make sense only where all processes see each other's files."""
ONLY_COMPOSE = {"EDGELORA_GATEWAY_OPERATOR_HOSTS"}
"""`edgelora up` hands it on from its own environment."""


def validate(document):
    """Parses by the specification: unknown keys, wrong types and dangling names raise."""
    parsed = compose_spec.PyCompose.from_yaml(yaml.safe_dump(document))
    parsed.validate()
    return parsed


def test_the_file_follows_the_compose_specification():
    assert set(validate(COMPOSE).service_names()) == {
        *(*OUR_SERVICES, "redis", "model", "encoder_model"),
        *("prometheus", "grafana"),
    }


@pytest.mark.parametrize(
    "break_it",
    [
        lambda document: document["services"]["gateway"].update(read_onyl=True),
        lambda document: document["services"]["gateway"].update(mem_limit="lots"),
        lambda document: document["services"]["gateway"].update(networks=["nowhere"]),
        lambda document: document["services"]["gateway"].update(secrets=["nothing"]),
        lambda document: document["services"]["gateway"]["depends_on"].update(
            scheduler={"condition": "service_happy"}
        ),
    ],
)
def test_the_check_by_the_specification_can_fail(break_it):
    document = yaml.safe_load(interpolated_text())
    break_it(document)
    with pytest.raises(ValueError, match=r"gateway|lots"):
        validate(document)


def test_all_services_run_as_their_modules():
    for name in OUR_SERVICES:
        module = f"services.{MODULES.get(name, name)}"
        assert SERVICES[name]["command"] == ["python", "-m", module]
        assert importlib.util.find_spec(f"{module}.__main__") is not None


def test_without_its_profile_nothing_knows_of_an_encoder():
    for name, service in load_compose()["services"].items():
        environment = service.get("environment", {})
        assert service.get("profiles") == ["encoder"] or not any(
            value for variable, value in environment.items() if "ENCODER" in variable
        ), name
    assert CONTAINERS["encoder"]["profiles"] == CONTAINERS["encoder_model"]["profiles"]


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_is_locked_down(name):
    service = CONTAINERS[name]
    uid, gid = service["user"].split(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert not {"privileged", "cap_add", "devices", "pid", "ipc", "network"} & set(service)
    assert service.get("network_mode") in (None, "none")
    assert all(not volume.startswith(("/", ".", "~")) for volume in service.get("volumes", []))


@pytest.mark.parametrize("name", [*OUR_SERVICES, "redis", "prometheus", "grafana"])
def test_every_server_has_a_health_check_and_is_restarted(name):
    service = CONTAINERS[name]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["restart"] == "unless-stopped"
    if name in OUR_SERVICES:
        address = service["healthcheck"]["test"][-1]
        prefix = "STORE" if name == "adapter_store" else name.upper()
        port = service["environment"][f"EDGELORA_{prefix}_ADDRESS"].rpartition(":")[2]
        if name == "gateway":  # its own door may speak TLS
            admin = service["environment"]["EDGELORA_GATEWAY_ADMIN_ADDRESS"]
            assert service["healthcheck"]["test"][-2:] == [admin, "edgelora.v1.GatewayService"]
        else:
            assert address == f"127.0.0.1:{port}"


def test_nothing_starts_before_what_it_needs_is_healthy():
    for service in CONTAINERS.values():
        for needed, how in service.get("depends_on", {}).items():
            is_model = needed in ("model", "encoder_model")
            wanted = "service_completed_successfully" if is_model else "service_healthy"
            assert how["condition"] == wanted
            # What may not be there is waited for where it is.
            assert how.get("required", True) or CONTAINERS[needed]["profiles"]


def test_only_the_gateway_is_published_and_on_loopback():
    assert [name for name in SERVICES if "ports" in SERVICES[name]] == ["gateway"]
    ports = [50051, 8080, 8081]
    assert SERVICES["gateway"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    assert not any("expose" in service for service in CONTAINERS.values())


def test_only_the_gateway_is_on_a_network_with_a_way_out():
    internal = {name for name, network in COMPOSE["networks"].items() if network.get("internal")}
    assert internal == {"control", "index"}
    outside = [
        name
        for name, service in SERVICES.items()
        if set(service.get("networks", ["default"])) - internal
        and service.get("network_mode") != "none"
    ]
    assert outside == ["gateway"]


def test_only_the_adapter_store_reaches_redis():
    assert {name for name in SERVICES if "index" in SERVICES[name].get("networks", [])} == {
        "redis",
        "adapter_store",
    }


def test_secrets_are_files_and_never_values():
    assert set(COMPOSE["secrets"]) == {
        *("seal_key", "operator_key", "redis_password", "redis_acl"),
        "grafana_password",
    }
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())
    for service in CONTAINERS.values():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"KEY|PASSWORD|SECRET|TOKEN", variable):
                assert variable.endswith("_FILE")
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert SERVICES["monitor"]["secrets"] == ["seal_key"]
    assert SERVICES["redis"]["secrets"] == ["redis_acl"]
    assert SERVICES["inference"]["secrets"] == ["seal_key"]


def test_metrics_are_off_unless_asked_for_and_read_by_nobody_outside_T20():
    for name in OUR_SERVICES:
        prefix = "STORE" if name == "adapter_store" else name.upper()
        assert SERVICES[name]["environment"][f"EDGELORA_{prefix}_METRICS_ADDRESS"] == ""
    added = {name: CONTAINERS[name] for name in CONTAINERS if name not in SERVICES}
    assert set(added) == {"prometheus", "grafana"}
    for container in added.values():
        assert container["profiles"] == ["metrics"]
        assert all(port.startswith("127.0.0.1:") for port in container["ports"])
    # Neither reaches Redis, and Grafana reaches nothing but Prometheus.
    assert added["prometheus"]["networks"] == ["metrics", "control"]
    assert added["grafana"]["networks"] == ["metrics"]


def test_the_configuration_of_the_profile_is_there():
    files = [Path(config["file"]) for config in COMPOSE["configs"].values()]
    assert files
    assert all((ROOT / file).is_file() for file in files)
    used = {config["source"] for each in CONTAINERS.values() for config in each.get("configs", [])}
    assert used == set(COMPOSE["configs"])


def test_redis_keeps_no_default_user_and_the_stores_own_rights_T21():
    default, store = (ROOT / "deploy/redis.acl.template").read_text().splitlines()
    assert default == "user default off"
    assert store == acl_line("PASSWORD_SHA256")


def test_workers_can_read_the_model_and_not_change_it():
    for name in ("adapter_store", "inference", "encoder"):
        assert "models:/edgelora:ro" in SERVICES[name]["volumes"]
    assert "models:/edgelora" in SERVICES["model"]["volumes"]


@pytest.mark.parametrize("name", OUR_SERVICES)
def test_every_setting_is_one_the_service_knows(name, tmp_path):
    """The service's own reader takes its environment: no unknown, missing or wrong setting."""
    secret = tmp_path / "secret"
    secret.write_text("0" * 64)
    environment = {
        variable: str(secret) if variable.endswith("_FILE") else value
        for variable, value in SERVICES[name]["environment"].items()
    }
    config = importlib.import_module(f"services.{MODULES.get(name, name)}.config")
    (config_class,) = (
        value
        for key, value in vars(config).items()
        if key.endswith("Config") and value.__module__ == config.__name__
    )
    config_class.from_env(environment)


def test_the_settings_are_those_of_the_local_stack():
    """Both start the same services: a setting one of them has, the other has as well."""
    paths = Path("/anywhere")
    local = service_environments(
        Wiring(
            addresses=dict.fromkeys(OUR_SERVICES, "unix:/socket"),
            http_address="127.0.0.1:8080",
            dashboard_address="127.0.0.1:8081",
            admin_address="unix:/admin",
            seal_key_file=paths,
            operator_key_file=paths,
            redis_url="unix://socket",
            redis_password_file=paths,
            model_dir=paths,
            encoder_dir=paths,
            store_dir=paths,
            remotes_file=None,
            router_file=None,
            gateway_dir=paths,
            pids_dir=paths,
            metrics_addresses=dict.fromkeys(OUR_SERVICES, "127.0.0.1:0"),
        )
    )
    for name in OUR_SERVICES:
        ours, theirs = set(SERVICES[name]["environment"]), set(local[name])
        assert ours - theirs <= ONLY_COMPOSE
        assert theirs - ours <= ONLY_LOCAL
