"""Settings of an encoder worker, read from EDGELORA_ENCODER_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.chassis.settings import Settings
from services.inference.config import BACKENDS
from services.inference.processor_cores import count_physical_cores

PREFIX = "EDGELORA_ENCODER_"
_MAX_THREADS = 256
"""What the native core takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """What an encoder worker needs to know to start."""

    address: str
    """ADDRESS: where it listens, `unix:/path` or `host:port`."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    name: str
    """NAME: the worker's name in tickets, default `encoder`."""
    model_directory: Path
    """MODEL_DIRECTORY: an encoder made by `edgelora model prepare`."""
    store_address: str
    """STORE_ADDRESS: the adapter store."""
    shared_blob_directory: Path | None
    """SHARED_BLOB_DIRECTORY: the store's blobs, when this process can read them; else adapters
    are streamed."""
    seal_key: bytes = field(repr=False)
    """SEAL_KEY_FILE: file with the node's seal key, one line of at least 32 characters."""
    backend: str
    """BACKEND: `auto`, `native` or `torch`; auto takes native where it runs, default auto."""
    num_threads: int
    """NUM_THREADS: threads the back end computes with, up to 256, default one for each physical
    core of this process."""
    max_loras: int
    """MAX_LORAS: adapter slots, default 32."""
    max_lora_rank: int
    """MAX_LORA_RANK: largest rank a slot holds, default 64."""
    max_step_tokens: int
    """MAX_STEP_TOKENS: tokens in one step, default 1024; at least the encoder's context."""
    lower_step_tokens: int
    """LOWER_STEP_TOKENS: most tokens of background and batch texts in one step, default 256."""
    aging_s: float
    """AGING: how long a background or batch request goes without a text in a step before one goes
    first, and a request waits for an adapter slot before nobody gets one before it, default
    500ms."""
    max_requests: int
    """MAX_REQUESTS: requests that have not ended; further ones are refused, default 256."""
    fetch_timeout_s: float
    """FETCH_TIMEOUT: longest wait for the adapter store, default 10s."""
    refusal_hold_s: float
    """REFUSAL_HOLD: how long an adapter that could not be served is not tried again, default
    30s."""
    residency_interval_s: float
    """RESIDENCY_INTERVAL: how often the store is told what is in the slots, default 5s."""
    stall_limit_s: float
    """STALL_LIMIT: time without a step, with work queued, after which health is red, default
    30s."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> EncoderConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        shared = settings.text("SHARED_BLOB_DIRECTORY", "-")
        config = cls(
            address=settings.text("ADDRESS"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            name=settings.text("NAME", "encoder"),
            model_directory=settings.path("MODEL_DIRECTORY"),
            store_address=settings.text("STORE_ADDRESS"),
            shared_blob_directory=None if shared == "-" else Path(shared),
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            backend=settings.choice("BACKEND", "auto", BACKENDS),
            num_threads=settings.integer(
                "NUM_THREADS", min(count_physical_cores(), _MAX_THREADS), low=1, high=_MAX_THREADS
            ),
            max_loras=settings.integer("MAX_LORAS", 32, low=1, high=1024),
            max_lora_rank=settings.integer("MAX_LORA_RANK", 64, low=1, high=512),
            max_step_tokens=settings.integer("MAX_STEP_TOKENS", 1024, low=16, high=65536),
            lower_step_tokens=settings.integer("LOWER_STEP_TOKENS", 256, low=1, high=65536),
            aging_s=settings.duration_s("AGING", 0.5),
            max_requests=settings.integer("MAX_REQUESTS", 256, low=1, high=65536),
            fetch_timeout_s=settings.duration_s("FETCH_TIMEOUT", 10.0),
            refusal_hold_s=settings.duration_s("REFUSAL_HOLD", 30.0),
            residency_interval_s=settings.duration_s("RESIDENCY_INTERVAL", 5.0),
            stall_limit_s=settings.duration_s("STALL_LIMIT", 30.0),
        )
        settings.finish()
        return config
