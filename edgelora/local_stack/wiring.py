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
}
"""How the variables of each service start."""
WORKER = "inference"
"""Name of the one inference worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Everything that differs between one deployment and another."""

    addresses: Mapping[str, str]
    """Service -> gRPC target on which the others call it; the gateway's is the tenants'."""
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
    model_dir: Path
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
            "EDGELORA_STORE_MODEL_DIRECTORY": str(wiring.model_dir),
            "EDGELORA_STORE_SEAL_KEY_FILE": str(wiring.seal_key_file),
            "EDGELORA_STORE_REDIS_URL": wiring.redis_url,
            **(
                {"EDGELORA_STORE_REDIS_PASSWORD_FILE": str(wiring.redis_password_file)}
                if wiring.redis_password_file
                else {}
            ),
            **(
                {"EDGELORA_STORE_REMOTES_FILE": str(wiring.remotes_file)}
                if wiring.remotes_file
                else {}
            ),
        },
        "inference": {
            "EDGELORA_INFERENCE_ADDRESS": to["inference"],
            "EDGELORA_INFERENCE_NAME": WORKER,
            "EDGELORA_INFERENCE_MODEL_DIRECTORY": str(wiring.model_dir),
            "EDGELORA_INFERENCE_STORE_ADDRESS": to["adapter_store"],
            "EDGELORA_INFERENCE_SHARED_BLOB_DIRECTORY": str(wiring.store_dir / "blobs"),
            "EDGELORA_INFERENCE_SEAL_KEY_FILE": str(wiring.seal_key_file),
        },
        "scheduler": {
            "EDGELORA_SCHEDULER_ADDRESS": to["scheduler"],
            "EDGELORA_SCHEDULER_STORE_ADDRESS": to["adapter_store"],
            "EDGELORA_SCHEDULER_MONITOR_ADDRESS": to["monitor"],
            "EDGELORA_SCHEDULER_WORKERS": f"{WORKER}={to['inference']}",
            "EDGELORA_SCHEDULER_SEAL_KEY_FILE": str(wiring.seal_key_file),
            **(
                {"EDGELORA_SCHEDULER_ROUTER_FILE": str(wiring.router_file)}
                if wiring.router_file
                else {}
            ),
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
            "EDGELORA_GATEWAY_INFERENCE_ADDRESS": to["inference"],
            "EDGELORA_GATEWAY_SEAL_KEY_FILE": str(wiring.seal_key_file),
        },
    }


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
