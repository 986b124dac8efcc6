"""What a worker counts: its steps, its KV cache, its slots, and what each adapter used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric

from edgelora.errors import ServiceUnavailableError
from services.chassis.metrics import Metrics, counter, counters, gauge, gauges
from services.inference.adapter_labels import AdapterLabels, LabelledShare
from services.inference.engine.engine import Engine
from services.inference.engine.shares import Row
from services.inference.engine.status import EngineStatus
from services.inference.vllm_metrics import VllmMetrics

_STEP_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


class WorkerMetrics(Metrics):
    """The metrics of one worker."""

    def __init__(
        self,
        address: str,
        *,
        vllm_model: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`vllm_model`: the base model's name, to show vLLM's names as well; None: only our own."""
        super().__init__("inference", address)
        self._clock = clock
        self.vllm = None if vllm_model is None else VllmMetrics(self.registry, vllm_model)
        self._labels = AdapterLabels()
        self._steps = Histogram(
            "edgelora_engine_step_seconds",
            "Time of a step of the engine, its tokens chosen.",
            buckets=_STEP_BUCKETS_S,
            registry=self.registry,
        )
        self._sequences = Histogram(
            "edgelora_engine_batch_sequences",
            "Sequences in a step.",
            buckets=_BATCH_BUCKETS,
            registry=self.registry,
        )
        tokens = Counter(
            "edgelora_engine_tokens_total",
            "Tokens that were run, by phase: prefill or decode.",
            ["phase"],
            registry=self.registry,
        )
        self._prefill, self._decode = tokens.labels("prefill"), tokens.labels("decode")

    def note_step(self, step_s: float, rows: Sequence[Row]) -> None:
        """Counts a step; a StepObserver."""
        num_prefill = sum(row.num_tokens for row in rows if row.is_prompt)
        self._steps.observe(step_s)
        self._sequences.observe(len(rows))
        self._prefill.inc(num_prefill)
        self._decode.inc(sum(row.num_tokens for row in rows) - num_prefill)

    def watch(self, engine: Engine) -> None:
        """Says where to read what the engine holds; before the model is loaded it holds nothing."""

        def read() -> Iterable[Metric]:
            try:
                status = engine.status
            except ServiceUnavailableError:
                return
            yield gauge(
                "edgelora_engine_stalled_seconds",
                "How long there has been work and no step.",
                engine.stalled_s(),
            )
            yield from _sequences(status)
            yield from _kv_cache(status)
            yield from _slots(status)
            yield from _shares(self._labels.look(status.shares, self._clock()))
            if self.vllm is not None:
                yield from self.vllm.read(status)

        self.read_on_loop(read)


def _sequences(status: EngineStatus) -> Iterable[Metric]:
    yield gauges(
        "edgelora_engine_sequences",
        "Sequences in the engine: running, or waiting for a seat, blocks or an adapter.",
        "state",
        {"running": status.num_running, "waiting": status.num_waiting},
    )
    yield counter(
        "edgelora_engine_output_tokens_total", "Tokens sampled.", status.num_output_tokens
    )
    yield counter(
        "edgelora_engine_preemptions_total",
        "Times a sequence gave its place up to a more urgent one.",
        status.num_preemptions,
    )
    yield counter(
        "edgelora_engine_recomputed_tokens_total",
        "Tokens that were run again after that.",
        status.num_recomputed_tokens,
    )
    yield counter(
        "edgelora_engine_failed_rows_total",
        "Sequences that were cut because the model failed on them.",
        status.num_failed_rows,
    )
    limits = status.limits
    yield gauges(
        "edgelora_engine_limit",
        "What the engine may use now: sequences and prompt tokens in a step, threads.",
        "of",
        {
            "sequences": limits.max_num_seqs,
            "prefill_tokens": limits.max_prefill_tokens,
            "threads": limits.num_threads,
        },
    )


def _kv_cache(status: EngineStatus) -> Iterable[Metric]:
    yield gauge("edgelora_kv_blocks", "Blocks of the KV cache.", status.num_kv_blocks)
    yield gauge(
        "edgelora_kv_blocks_used",
        "Those that a sequence or a session holds.",
        status.num_kv_blocks - status.num_free_kv_blocks,
    )
    yield gauge(
        "edgelora_kv_blocks_cached",
        "Those that a later prompt of the same tenant may be found in, held or not.",
        status.num_cached_kv_blocks,
    )
    yield counter(
        "edgelora_prefix_lookup_tokens_total",
        "Prompt tokens that were looked for in cached blocks.",
        status.num_prefix_lookup_tokens,
    )
    yield counter(
        "edgelora_prefix_hit_tokens_total",
        "Those of them that were found, and not computed again.",
        status.num_prefix_hit_tokens,
    )
    yield gauge("edgelora_sessions", "Conversations whose tokens are kept.", status.num_sessions)
    yield gauge("edgelora_session_tokens", "The tokens kept for them.", status.num_session_tokens)


def _slots(status: EngineStatus) -> Iterable[Metric]:
    yield gauge("edgelora_adapter_slots", "Adapter slots.", status.num_adapter_slots)
    yield gauges(
        "edgelora_adapter_slots_taken",
        "Slots with an adapter, or with one on its way.",
        "state",
        {"resident": status.num_resident_adapters, "loading": status.num_loading_adapters},
    )
    yield gauge(
        "edgelora_adapter_references",
        "Running sequences' references on slots.",
        status.num_adapter_references,
    )
    yield gauges(
        "edgelora_engine_memory_bytes",
        "Memory of the model by what it holds.",
        "of",
        {
            "weights": status.memory.weights_bytes,
            "kv_cache": status.memory.kv_cache_bytes,
            "adapter_slots": status.memory.adapter_slots_bytes,
            "adapters": status.adapter_bytes,
        },
    )


def _shares(shares: Sequence[LabelledShare]) -> Iterable[Metric]:
    yield counters(
        "edgelora_adapter_step_seconds_total",
        "Each adapter's share of the time of the steps: the busiest by the start of their digest, "
        "the base model as base, and other.",
        "adapter",
        {each.label: each.share.step_s for each in shares},
    )
    yield counters(
        "edgelora_adapter_prompt_tokens_total",
        "Prompt tokens read with an adapter.",
        "adapter",
        {each.label: each.share.num_prompt_tokens for each in shares},
    )
    yield counters(
        "edgelora_adapter_output_tokens_total",
        "Tokens sampled with an adapter.",
        "adapter",
        {each.label: each.share.num_output_tokens for each in shares},
    )
