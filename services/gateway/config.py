"""Settings of the gateway, read from EDGELORA_GATEWAY_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from services.chassis.settings import ConfigError, Settings
from services.chassis.tls import TlsFiles
from services.chassis.tracing import CallersTrace
from services.gateway.http.limits import HttpLimits

PREFIX = "EDGELORA_GATEWAY_"
_UNIX = "unix:"
_MIN_KEY_CHARS = 32
_MAX_CONNECTIONS = 100_000
_MAX_UPLOAD_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """What the gateway needs to know to start."""

    address: str
    """ADDRESS: where tenants connect, default 127.0.0.1:50051."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    clients_trace: CallersTrace
    """CLIENTS_TRACE: what becomes of the traceparent a client sends: `ignore` (the default), `link`
    or `parent`."""
    admin_address: str
    """ADMIN_ADDRESS: unix socket of the AdminService. Never a network address."""
    directory: Path
    """DIRECTORY: holds tenants.sqlite (keys, hashed) and quota.sqlite (what is left of quotas)
    and usage.sqlite (what was used)."""
    scheduler_address: str
    """SCHEDULER_ADDRESS"""
    store_address: str
    """STORE_ADDRESS: the adapter store."""
    monitor_address: str
    """MONITOR_ADDRESS"""
    inference_address: str | None
    """INFERENCE_ADDRESS: the worker that generates, whose health and model the gateway reports;
    needed without ENCODER_ADDRESS."""
    encoder_address: str | None
    """ENCODER_ADDRESS: the same of the worker that classifies and embeds; absent: none."""
    seal_key: bytes = field(repr=False)
    """SEAL_KEY_FILE: file with the node's seal key, one line of at least 32 characters."""
    default_deadline_s: float
    """DEFAULT_DEADLINE: longest generation of a client that sets no deadline, default 60s."""
    max_deadline_s: float
    """MAX_DEADLINE: longest call whatever the client asks, default 600s."""
    install_deadline_s: float
    """INSTALL_DEADLINE: longest installation from a remote, default 1h."""
    client_stall_s: float
    """CLIENT_STALL: a client that reads (or uploads) nothing for so long loses its call,
    default 30s."""
    health_interval_s: float
    """HEALTH_INTERVAL: pause between two looks at the health of a service, default 500ms."""
    max_upload_bytes: int
    """MAX_UPLOAD: largest weights file of an adapter, default 512MiB."""
    power_watts: float | None
    """POWER_WATTS: what the node draws while the engine computes, for estimates of energy; 0 or
    absent: unknown."""
    http_address: str
    """HTTP_ADDRESS: where tenants connect over HTTP, default 127.0.0.1:8080."""
    http_limits: HttpLimits
    """HTTP_MAX_BODY (1MiB), HTTP_MAX_CONNECTIONS (512), HTTP_MAX_CONNECTIONS_PER_PEER (128),
    HTTP_HEAD_TIMEOUT (10s), HTTP_BODY_TIMEOUT (30s), and CLIENT_STALL: of both HTTP listeners."""
    tls: TlsFiles | None
    """TLS_CERT_FILE, TLS_KEY_FILE, TLS_CLIENT_CA_FILE: TLS on every network address; with the third
    a client may prove its tenant by a certificate over HTTP and at MUTUAL_TLS_ADDRESS."""
    mutual_tls_address: str | None
    """MUTUAL_TLS_ADDRESS: one more gRPC address, where every client shows a certificate."""
    operator_http_address: str
    """OPERATOR_HTTP_ADDRESS: the dashboard, default 127.0.0.1:8081."""
    operator_key: bytes | None = field(repr=False)
    """OPERATOR_KEY_FILE: file with the key that opens the dashboard, one line of at least 32
    characters; without it there is no dashboard."""
    operator_hosts: tuple[str, ...]
    """OPERATOR_HOSTS: names under which a browser may open the dashboard, comma-separated; its
    address and localhost always work."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> GatewayConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        client_stall_s = settings.duration_s("CLIENT_STALL", 30.0)
        encoder = settings.text("ENCODER_ADDRESS", "")
        config = cls(
            address=settings.text("ADDRESS", "127.0.0.1:50051"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            clients_trace=cast(
                CallersTrace, settings.choice("CLIENTS_TRACE", "ignore", get_args(CallersTrace))
            ),
            admin_address=settings.text("ADMIN_ADDRESS"),
            directory=settings.path("DIRECTORY"),
            scheduler_address=settings.text("SCHEDULER_ADDRESS"),
            store_address=settings.text("STORE_ADDRESS"),
            monitor_address=settings.text("MONITOR_ADDRESS"),
            inference_address=settings.text("INFERENCE_ADDRESS", "" if encoder else None) or None,
            encoder_address=encoder or None,
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            default_deadline_s=settings.duration_s("DEFAULT_DEADLINE", 60.0),
            max_deadline_s=settings.duration_s("MAX_DEADLINE", 600.0),
            install_deadline_s=settings.duration_s("INSTALL_DEADLINE", 3600.0),
            client_stall_s=client_stall_s,
            health_interval_s=settings.duration_s("HEALTH_INTERVAL", 0.5),
            power_watts=settings.number("POWER_WATTS", 0.0, low=0.0, high=100_000.0) or None,
            http_address=settings.text("HTTP_ADDRESS", "127.0.0.1:8080"),
            http_limits=_http_limits(settings, client_stall_s),
            tls=_tls(settings),
            mutual_tls_address=settings.listen_address("MUTUAL_TLS_ADDRESS"),
            operator_http_address=settings.text("OPERATOR_HTTP_ADDRESS", "127.0.0.1:8081"),
            operator_key=settings.optional_secret_file("OPERATOR_KEY_FILE"),
            operator_hosts=_names(settings.text("OPERATOR_HOSTS", "")),
            max_upload_bytes=settings.size_bytes("MAX_UPLOAD", _MAX_UPLOAD_BYTES),
        )
        settings.finish()
        if config.mutual_tls_address and (config.tls is None or config.tls.client_ca is None):
            raise ConfigError(
                f"{PREFIX}MUTUAL_TLS_ADDRESS needs {PREFIX}TLS_CLIENT_CA_FILE: who signs the "
                "clients' certificates"
            )
        if config.operator_key is not None and len(config.operator_key) < _MIN_KEY_CHARS:
            raise ConfigError(
                f"{PREFIX}OPERATOR_KEY_FILE must hold at least {_MIN_KEY_CHARS} characters: "
                "whoever guesses them sees all tenants"
            )
        if not config.admin_address.startswith(_UNIX):
            raise ConfigError(
                f"{PREFIX}ADMIN_ADDRESS must be a unix socket such as "
                "unix:/run/edgelora/admin.sock: who can open it can make tenants"
            )
        return config


def _http_limits(settings: Settings, stall_s: float) -> HttpLimits:
    usual = HttpLimits()
    return HttpLimits(
        max_body_bytes=settings.size_bytes("HTTP_MAX_BODY", usual.max_body_bytes),
        max_connections=settings.integer(
            "HTTP_MAX_CONNECTIONS", usual.max_connections, low=1, high=_MAX_CONNECTIONS
        ),
        max_connections_per_peer=settings.integer(
            "HTTP_MAX_CONNECTIONS_PER_PEER",
            usual.max_connections_per_peer,
            low=1,
            high=_MAX_CONNECTIONS,
        ),
        head_s=settings.duration_s("HTTP_HEAD_TIMEOUT", usual.head_s),
        body_s=settings.duration_s("HTTP_BODY_TIMEOUT", usual.body_s),
        stall_s=stall_s,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tls(settings: Settings) -> TlsFiles | None:
    names = (settings.text(f"TLS_{name}_FILE", "") for name in ("CERT", "KEY", "CLIENT_CA"))
    certificate, key, client_ca = (Path(name) if name else None for name in names)
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise ConfigError(
            f"{PREFIX}TLS_CERT_FILE and {PREFIX}TLS_KEY_FILE belong together: give both"
        )
    return TlsFiles(certificate=certificate, key=key, client_ca=client_ca)
