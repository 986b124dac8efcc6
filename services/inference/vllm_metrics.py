"""The same worker under the names that vLLM gives its metrics.

For what reads those: dashboards, and routers that follow the Model Server Protocol of the Gateway
API Inference Extension.

vLLM's names are those of its documentation ("Production Metrics") and of that protocol. Adapters go
by their digests, which is what a request to this worker names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from services.inference.engine.events import Completed
from services.inference.engine.sequence import FinishReason
from services.inference.engine.status import EngineStatus

_FIRST_BUCKETS_S = (0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_GAP_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_TOTAL_BUCKETS_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)
_MODEL = "model_name"


class VllmMetrics:
    """A GenerationObserver, and a reader of the engine's status."""

    def __init__(
        self, registry: CollectorRegistry, model: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock`: Unix time, which the information about adapters has for its value."""
        self._model = model
        self._clock = clock

        def histogram(name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
            found = Histogram(name, meaning, [_MODEL], buckets=buckets, registry=registry)
            return found.labels(model)

        self._first_token = histogram(
            "vllm:time_to_first_token_seconds",
            "From arrival to the first token.",
            _FIRST_BUCKETS_S,
        )
        self._gap = histogram(
            "vllm:inter_token_latency_seconds",
            "Between a token and the next: tokens that went out together share their time.",
            _GAP_BUCKETS_S,
        )
        self._total = histogram(
            "vllm:e2e_request_latency_seconds", "From arrival to the end.", _TOTAL_BUCKETS_S
        )
        self._queue = histogram(
            "vllm:request_queue_time_seconds", "From arrival to the first step.", _TOTAL_BUCKETS_S
        )
        self._prompt = Counter(
            "vllm:prompt_tokens_total", "Prompt tokens.", [_MODEL], registry=registry
        ).labels(model)
        self._successes = Counter(
            "vllm:request_success_total",
            "Generations that came to their end.",
            [_MODEL, "finished_reason"],
            registry=registry,
        )
        for reason in FinishReason:
            self._successes.labels(model, reason.name.lower())

    def note_tokens(self, num_tokens: int, since_last_s: float | None) -> None:
        """Counts the gaps before some tokens."""
        if since_last_s is not None:
            for _ in range(num_tokens):
                self._gap.observe(since_last_s / num_tokens)

    def note_completed(self, completed: Completed) -> None:
        """Counts one generation."""
        self._first_token.observe(completed.first_token_s)
        self._total.observe(completed.total_s)
        self._queue.observe(completed.queue_s + completed.adapter_load_s)
        self._prompt.inc(completed.num_prompt_tokens)
        self._successes.labels(self._model, completed.finish_reason.name.lower()).inc()

    def read(self, status: EngineStatus) -> Iterable[Metric]:
        """What the engine holds."""
        num_used = status.num_kv_blocks - status.num_free_kv_blocks
        yield self._gauge("vllm:num_requests_running", "Sequences that run.", status.num_running)
        yield self._gauge("vllm:num_requests_waiting", "Sequences that wait.", status.num_waiting)
        yield self._gauge(
            "vllm:kv_cache_usage_perc",
            "Share of the KV cache in use, 1 for all of it.",
            num_used / status.num_kv_blocks,
        )
        generated = CounterMetricFamily(
            "vllm:generation_tokens_total", "Tokens sampled.", labels=[_MODEL]
        )
        generated.add_metric([self._model], status.num_output_tokens)
        yield generated
        yield self._adapters(status)

    def _adapters(self, status: EngineStatus) -> Metric:
        family = GaugeMetricFamily(
            "vllm:lora_requests_info",
            "Unix time; which adapters run, and which wait to be loaded.",
            labels=["max_lora", "running_lora_adapters", "waiting_lora_adapters"],
        )
        running = [
            slot.digest for slot in status.slots if slot.num_references and not slot.is_loading
        ]
        waiting = [slot.digest for slot in status.slots if slot.is_loading]
        family.add_metric(
            [str(status.num_adapter_slots), ",".join(sorted(running)), ",".join(sorted(waiting))],
            self._clock(),
        )
        return family

    def _gauge(self, name: str, meaning: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, meaning, labels=[_MODEL])
        family.add_metric([self._model], value)
        return family
