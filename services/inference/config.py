"""Settings of an inference worker, read from EDGELORA_INFERENCE_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.chassis.settings import Settings
from services.inference.processor_cores import count_physical_cores

PREFIX = "EDGELORA_INFERENCE_"
BACKENDS = ("auto", "native", "torch")
DTYPES = ("float32", "bfloat16")
KV_CACHE_DTYPES = ("float16", "int8")
_MAX_THREADS = 256
"""What the native core takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceConfig:
    """What a worker needs to know to start."""

    address: str
    """ADDRESS: where it listens, `unix:/path` or `host:port`."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    has_vllm_metrics: bool
    """VLLM_METRICS: shows the metrics also under the names vLLM gives them, default false."""
    name: str
    """NAME: the worker's name in tickets, default `inference`."""
    model_directory: Path
    """MODEL_DIRECTORY: a directory made by `edgelora model prepare`."""
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
    """THREADS: threads the back end computes with, up to 256, default one for each physical
    core of this process."""
    dtype: str
    """DTYPE: `float32` or `bfloat16`, of the torch back end's weights and KV cache, default
    float32."""
    max_loras: int
    """MAX_LORAS: adapter slots, default 16."""
    max_lora_rank: int
    """MAX_LORA_RANK: largest rank a slot holds, default 64."""
    adapter_memory_bytes: int | None
    """ADAPTER_MEMORY_SIZE: most memory of adapters in slots, default all slots full."""
    min_residency_s: float
    """MIN_RESIDENCY: how long a loaded adapter that has served nobody yet stays while another
    slot is busy, default 500ms."""
    max_num_seqs: int
    """MAX_NUM_SEQS: sequences in one step, default 16."""
    max_num_batched_tokens: int
    """MAX_NUM_BATCHED_TOKENS: tokens in one step, decode and prefill together, default 512."""
    lower_prefill_tokens: int
    """LOWER_PREFILL_TOKENS: most prompt tokens of background and batch requests in one step,
    default 64."""
    tenant_prefill_tokens: int
    """TENANT_PREFILL_TOKENS: most prompt tokens of one tenant's interactive requests in one step,
    where it has others there, default 64."""
    aging_s: float
    """AGING: how long a background or batch request goes unserved before it has a turn among the
    interactive ones, default 15s."""
    kv_cache_bytes: int
    """KV_CACHE_SIZE: size of the KV cache, default 512MiB."""
    kv_cache_dtype: str
    """KV_CACHE_DTYPE: `float16` or `int8`, of the native back end's KV cache, default float16."""
    block_size: int
    """BLOCK_SIZE: tokens in a KV block, default 16, which the native back end needs."""
    prefix_caching: bool
    """PREFIX_CACHING: whether a tenant's requests share the computed start of their prompts,
    default true."""
    max_sessions: int
    """MAX_SESSIONS: conversations of one tenant that are kept for their next request, default 8;
    0 keeps none."""
    session_share: float
    """SESSION_SHARE: most of the KV cache that is kept for conversations, default 0.5."""
    tenant_session_share: float
    """TENANT_SESSION_SHARE: the same of one tenant, default 0.25."""
    session_age_s: float
    """SESSION_AGE: how long a conversation is kept after its last request, default 10m."""
    slot_patience_s: float
    """SLOT_PATIENCE: how long a request waits for an adapter slot before room is made, default 2s;
    after twice that it gets one from a request of its class."""
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

    def kv_cache_dtype_of(self, backend: str) -> str:
        """The type of the numbers in the KV cache of a back end, `native` or `torch`."""
        return self.kv_cache_dtype if backend == "native" else self.dtype

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> InferenceConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        shared = settings.text("SHARED_BLOB_DIRECTORY", "-")
        max_num_seqs = settings.integer("MAX_NUM_SEQS", 16, low=1, high=256)
        config = cls(
            address=settings.text("ADDRESS"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            has_vllm_metrics=settings.boolean("VLLM_METRICS", False),
            name=settings.text("NAME", "inference"),
            model_directory=settings.path("MODEL_DIRECTORY"),
            store_address=settings.text("STORE_ADDRESS"),
            shared_blob_directory=None if shared == "-" else Path(shared),
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            backend=settings.choice("BACKEND", "auto", BACKENDS),
            num_threads=settings.integer(
                "THREADS", min(count_physical_cores(), _MAX_THREADS), low=1, high=_MAX_THREADS
            ),
            dtype=settings.choice("DTYPE", "float32", DTYPES),
            max_loras=settings.integer("MAX_LORAS", 16, low=1, high=1024),
            max_lora_rank=settings.integer("MAX_LORA_RANK", 64, low=1, high=512),
            adapter_memory_bytes=settings.size_bytes("ADAPTER_MEMORY_SIZE", 0) or None,
            min_residency_s=settings.duration_s("MIN_RESIDENCY", 0.5),
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=settings.integer(
                "MAX_NUM_BATCHED_TOKENS", max(512, max_num_seqs), low=max_num_seqs, high=65536
            ),
            lower_prefill_tokens=settings.integer("LOWER_PREFILL_TOKENS", 64, low=1, high=65536),
            tenant_prefill_tokens=settings.integer("TENANT_PREFILL_TOKENS", 64, low=1, high=65536),
            aging_s=settings.duration_s("AGING", 15.0),
            kv_cache_bytes=settings.size_bytes("KV_CACHE_SIZE", 512 * 2**20),
            kv_cache_dtype=settings.choice("KV_CACHE_DTYPE", "float16", KV_CACHE_DTYPES),
            block_size=settings.integer("BLOCK_SIZE", 16, low=1, high=1024),
            prefix_caching=settings.boolean("PREFIX_CACHING", True),
            max_sessions=settings.integer("MAX_SESSIONS", 8, low=0, high=1024),
            session_share=settings.number("SESSION_SHARE", 0.5, low=0.0, high=1.0),
            tenant_session_share=settings.number("TENANT_SESSION_SHARE", 0.25, low=0.0, high=1.0),
            session_age_s=settings.duration_s("SESSION_AGE", 600.0),
            slot_patience_s=settings.duration_s("SLOT_PATIENCE", 2.0),
            fetch_timeout_s=settings.duration_s("FETCH_TIMEOUT", 10.0),
            refusal_hold_s=settings.duration_s("REFUSAL_HOLD", 30.0),
            residency_interval_s=settings.duration_s("RESIDENCY_INTERVAL", 5.0),
            stall_limit_s=settings.duration_s("STALL_LIMIT", 30.0),
        )
        settings.finish()
        return config
