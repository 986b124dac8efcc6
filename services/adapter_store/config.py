"""Settings of the adapter store, read from EDGELORA_STORE_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.adapter_store.verification.sandbox import LEVELS
from services.chassis.settings import Settings

PREFIX = "EDGELORA_STORE_"
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterStoreConfig:
    """What the adapter store needs to know to start."""

    address: str
    """ADDRESS: where it listens, `unix:/path` or `host:port`."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    directory: Path
    """DIRECTORY: registry, blobs and staging; created 0700. Workers on the same host that may
    read `DIRECTORY/blobs` need no stream."""
    model_directory: Path | None
    """MODEL_DIRECTORY: the prepared decoder adapters are verified against; absent: none."""
    encoder_model_directory: Path | None
    """ENCODER_MODEL_DIRECTORY: the prepared encoder; absent: none. One of the two is needed."""
    seal_key: bytes = field(repr=False)
    """SEAL_KEY_FILE: file with the node's seal key, one line of at least 32 characters."""
    redis_url: str | None
    """REDIS_URL: `unix://user@/path.sock` or `redis://user@host:port/0`; absent: no hot index."""
    redis_password: bytes | None = field(repr=False)
    """REDIS_PASSWORD_FILE: file with the password of the URL's user."""
    max_lora_rank: int
    """MAX_LORA_RANK: largest rank of any module, default 64."""
    max_adapter_bytes: int
    """MAX_ADAPTER_BYTES: largest weights file, default 512MiB."""
    max_adapters_per_tenant: int
    """MAX_ADAPTERS_PER_TENANT: default 2000."""
    max_concurrent_uploads: int
    """MAX_CONCURRENT_UPLOADS: default 8; further ones are refused with a delay."""
    max_concurrent_verifications: int
    """MAX_CONCURRENT_VERIFICATIONS: verification processes at once, default 2."""
    verification_timeout_s: float
    """VERIFICATION_TIMEOUT: longest time one adapter may take, default 60s."""
    minimum_sandbox: str
    """SANDBOX_LEVEL: least that verification processes have to give up: `none`, `rlimits` (the
    default), `landlock` or `landlock+seccomp`. They always give up what they can."""
    is_encoding: bool
    """CODEC: `auto` (the default) keeps adapters encoded where the loss can be measured, `off`
    keeps the originals."""
    codec_max_kl: float
    """CODEC_MAX_KL: most mean divergence of an encoded adapter's next tokens, in nats."""
    min_free_bytes: int
    """MIN_FREE_BYTES: storage that uploads leave free, default 64MiB."""
    flash_budget_bytes: int | None
    """FLASH_BUDGET: most bytes of all blobs; 0, the default: as much as the disk has."""
    flash_min_residency_s: float
    """FLASH_MIN_RESIDENCY: an adapter used more recently is not evicted, default 60s."""
    remotes_file: Path | None
    """REMOTES_FILE: TOML file with the remotes tenants may install from; absent: none."""
    max_pinned_per_tenant: int
    """MAX_PINNED_PER_TENANT: default 4."""
    has_warm_up: bool
    """WARM_UP: learns habits and loads adapters ahead of use, default true."""
    warm_up_bytes_per_hour: int
    """WARM_UP_BYTES_PER_HOUR: most bytes moved for that, default 256MiB."""
    warm_up_joules_per_hour: float
    """WARM_UP_JOULES_PER_HOUR: most energy spent on that, as estimated, default 36."""
    holidays_file: Path | None
    """HOLIDAYS_FILE: a day a line, `2026-12-25` or for every year `12-25`; absent: none."""
    time_zone: str | None
    """TIME_ZONE: such as `Europe/Berlin`; absent: the system's."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> AdapterStoreConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        encoder = _optional_path(settings, "ENCODER_MODEL_DIRECTORY")
        config = cls(
            address=settings.text("ADDRESS"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            directory=settings.path("DIRECTORY"),
            model_directory=_optional_path(settings, "MODEL_DIRECTORY")
            if encoder
            else settings.path("MODEL_DIRECTORY"),
            encoder_model_directory=encoder,
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            redis_url=settings.text("REDIS_URL", "") or None,
            redis_password=settings.optional_secret_file("REDIS_PASSWORD_FILE"),
            max_lora_rank=settings.integer("MAX_LORA_RANK", 64, low=1, high=1024),
            max_adapter_bytes=settings.size_bytes("MAX_ADAPTER_BYTES", 512 * _MIB),
            max_adapters_per_tenant=settings.integer(
                "MAX_ADAPTERS_PER_TENANT", 2000, low=1, high=1_000_000
            ),
            max_concurrent_uploads=settings.integer("MAX_CONCURRENT_UPLOADS", 8, low=1, high=256),
            max_concurrent_verifications=settings.integer(
                "MAX_CONCURRENT_VERIFICATIONS", 2, low=1, high=64
            ),
            verification_timeout_s=settings.duration_s("VERIFICATION_TIMEOUT", 60.0),
            minimum_sandbox=settings.choice("SANDBOX_LEVEL", "rlimits", LEVELS),
            is_encoding=settings.choice("CODEC", "auto", ("auto", "off")) == "auto",
            codec_max_kl=settings.number("CODEC_MAX_KL", 0.02, low=0.0, high=10.0),
            min_free_bytes=settings.size_bytes("MIN_FREE_BYTES", 64 * _MIB),
            flash_budget_bytes=settings.size_bytes("FLASH_BUDGET", 0) or None,
            flash_min_residency_s=settings.duration_s("FLASH_MIN_RESIDENCY", 60.0),
            remotes_file=_optional_path(settings, "REMOTES_FILE"),
            max_pinned_per_tenant=settings.integer(
                "MAX_PINNED_PER_TENANT", 4, low=0, high=1_000_000
            ),
            has_warm_up=settings.boolean("WARM_UP", True),
            warm_up_bytes_per_hour=settings.size_bytes("WARM_UP_BYTES_PER_HOUR", 256 * _MIB),
            warm_up_joules_per_hour=settings.number(
                "WARM_UP_JOULES_PER_HOUR", 36.0, low=0.0, high=1e9
            ),
            holidays_file=_optional_path(settings, "HOLIDAYS_FILE"),
            time_zone=settings.text("TIME_ZONE", "") or None,
        )
        settings.finish()
        return config


def _optional_path(settings: Settings, name: str) -> Path | None:
    text = settings.text(name, "")
    return Path(text) if text else None
