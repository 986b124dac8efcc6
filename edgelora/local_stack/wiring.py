"""The one table of what each service's environment holds. docker-compose.yml states the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS", "EDGELORA_ISA"),
    # Without these Android's own programs, which Termux:API calls, do not start.
    *("ANDROID_DATA", "ANDROID_ROOT", "ANDROID_ART_ROOT", "ANDROID_I18N_ROOT"),
    *("ANDROID_RUNTIME_ROOT", "ANDROID_TZDATA_ROOT", "BOOTCLASSPATH", "DEX2OATBOOTCLASSPATH"),
)
"""Variables of the launcher that services see; nothing else of its environment reaches them."""
_OF_ALL = ("EDGELORA_LOG_LEVEL", "EDGELORA_OTLP_ENDPOINT")
"""Settings that every service reads."""
PREFIXES = {
    "monitor": "EDGELORA_MONITOR_",
    "adapter_store": "EDGELORA_STORE_",
    "inference": "EDGELORA_INFERENCE_",
    "scheduler": "EDGELORA_SCHEDULER_",
    "gateway": "EDGELORA_GATEWAY_",
    "encoder": "EDGELORA_ENCODER_",
}
"""How the variables of each service start."""
WORKER = "inference"
"""Name of the one worker that generates."""
ENCODER_WORKER = "encoder"
"""Name of the one worker that classifies and embeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Everything that differs between one deployment and another."""

    addresses: Mapping[str, str]
    """Service -> gRPC target on which the others call it; the gateway's is the tenants'. Without a
    worker's there is none of its kind."""
    http_address: str
    """Where tenants call over HTTP, `host:port`."""
    dashboard_address: str
    """Where the operator's browser goes, `host:port`."""
    admin_address: str
    """Where the operator calls, a unix socket."""
    seal_key_file: Path
    operator_key_file: Path
    """What opens the dashboard."""
    redis_url: str
    redis_password_file: Path | None
    model_dir: Path | None
    """The decoder; None: none generates."""
    encoder_dir: Path | None
    """The encoder; None: none classifies and embeds. There is one of the two."""
    store_dir: Path
    remotes_file: Path | None
    """Where the operator names the remotes; None leaves it to the launcher's environment."""
    router_file: Path | None
    """Where the operator's router is, or will be; None leaves it to the launcher's environment."""
    gateway_dir: Path
    pids_dir: Path
    metrics_addresses: Mapping[str, str] = field(default_factory=dict)
    """Service -> where a Prometheus may read it, `host:port`; those left out show nothing."""


def service_environments(wiring: Wiring) -> dict[str, dict[str, str]]:
    """Returns each service's own variables."""
    environments = _environments(wiring)
    for service, address in wiring.metrics_addresses.items():
        environments[service][f"{PREFIXES[service]}METRICS_ADDRESS"] = address
    return environments


def _environments(wiring: Wiring) -> dict[str, dict[str, str]]:
    to = wiring.addresses
    return {
        "monitor": {
            "EDGELORA_MONITOR_ADDRESS": to["monitor"],
            "EDGELORA_MONITOR_SEAL_KEY_FILE": str(wiring.seal_key_file),
            "EDGELORA_MONITOR_RUN_DIRECTORY": str(wiring.pids_dir),
        },
        "adapter_store": {
            "EDGELORA_STORE_ADDRESS": to["adapter_store"],
            "EDGELORA_STORE_DIRECTORY": str(wiring.store_dir),
            **_given("EDGELORA_STORE_MODEL_DIRECTORY", wiring.model_dir),
            **_given("EDGELORA_STORE_ENCODER_MODEL_DIRECTORY", wiring.encoder_dir),
            "EDGELORA_STORE_SEAL_KEY_FILE": str(wiring.seal_key_file),
            "EDGELORA_STORE_REDIS_URL": wiring.redis_url,
            **_given("EDGELORA_STORE_REDIS_PASSWORD_FILE", wiring.redis_password_file),
            **_given("EDGELORA_STORE_REMOTES_FILE", wiring.remotes_file),
        },
        **_worker("inference", WORKER, wiring.model_dir, wiring),
        **_worker("encoder", ENCODER_WORKER, wiring.encoder_dir, wiring),
        "scheduler": {
            "EDGELORA_SCHEDULER_ADDRESS": to["scheduler"],
            "EDGELORA_SCHEDULER_STORE_ADDRESS": to["adapter_store"],
            "EDGELORA_SCHEDULER_MONITOR_ADDRESS": to["monitor"],
            **_named("EDGELORA_SCHEDULER_WORKERS", WORKER, to.get("inference")),
            **_named("EDGELORA_SCHEDULER_ENCODER_WORKERS", ENCODER_WORKER, to.get("encoder")),
            "EDGELORA_SCHEDULER_SEAL_KEY_FILE": str(wiring.seal_key_file),
            **_given("EDGELORA_SCHEDULER_ROUTER_FILE", wiring.router_file),
        },
        "gateway": {
            "EDGELORA_GATEWAY_ADDRESS": to["gateway"],
            "EDGELORA_GATEWAY_ADMIN_ADDRESS": wiring.admin_address,
            "EDGELORA_GATEWAY_HTTP_ADDRESS": wiring.http_address,
            "EDGELORA_GATEWAY_OPERATOR_HTTP_ADDRESS": wiring.dashboard_address,
            "EDGELORA_GATEWAY_OPERATOR_KEY_FILE": str(wiring.operator_key_file),
            "EDGELORA_GATEWAY_DIRECTORY": str(wiring.gateway_dir),
            "EDGELORA_GATEWAY_SCHEDULER_ADDRESS": to["scheduler"],
            "EDGELORA_GATEWAY_STORE_ADDRESS": to["adapter_store"],
            "EDGELORA_GATEWAY_MONITOR_ADDRESS": to["monitor"],
            **_given("EDGELORA_GATEWAY_INFERENCE_ADDRESS", to.get("inference")),
            **_given("EDGELORA_GATEWAY_ENCODER_ADDRESS", to.get("encoder")),
            "EDGELORA_GATEWAY_SEAL_KEY_FILE": str(wiring.seal_key_file),
        },
    }


def _worker(
    service: str, name: str, model_dir: Path | None, wiring: Wiring
) -> dict[str, dict[str, str]]:
    if model_dir is None:
        return {}
    prefix, to = PREFIXES[service], wiring.addresses
    return {
        service: {
            f"{prefix}ADDRESS": to[service],
            f"{prefix}NAME": name,
            f"{prefix}MODEL_DIRECTORY": str(model_dir),
            f"{prefix}STORE_ADDRESS": to["adapter_store"],
            f"{prefix}SHARED_BLOB_DIRECTORY": str(wiring.store_dir / "blobs"),
            f"{prefix}SEAL_KEY_FILE": str(wiring.seal_key_file),
        }
    }


def _given(variable: str, value: Path | str | None) -> dict[str, str]:
    return {} if value is None else {variable: str(value)}


def _named(variable: str, worker: str, address: str | None) -> dict[str, str]:
    return {} if address is None else {variable: f"{worker}={address}"}


def process_environment(
    service: str, own: Mapping[str, str], launcher: Mapping[str, str]
) -> dict[str, str]:
    """Returns the whole environment of a service's process.

    The operator's settings for this service pass through; the wiring wins, because the services
    would not find each other otherwise.
    """
    prefix = PREFIXES[service]
    return {
        **{name: launcher[name] for name in PASSED_ON if name in launcher},
        **{
            name: value
            for name, value in launcher.items()
            if name.startswith(prefix) or name in _OF_ALL
        },
        "PYTHONUNBUFFERED": "1",
        **own,
    }
