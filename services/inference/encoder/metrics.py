"""What an encoder worker counts: its steps, its slots, and what each adapter used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric

from edgelora.errors import ServiceUnavailableError
from services.chassis.metrics import Metrics, counter, counters, gauge, gauges
from services.inference.adapter_labels import AdapterLabels
from services.inference.encoder.engine import EncoderEngine
from services.inference.encoder.status import EncoderStatus
from services.inference.engine.shares import Row

_STEP_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


class EncoderMetrics(Metrics):
    """The metrics of one encoder worker."""

    def __init__(self, address: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("encoder", address)
        self._clock = clock
        self._labels = AdapterLabels()
        self._steps = Histogram(
            "edgelora_encoder_step_seconds",
            "Time of a step of the encoder.",
            buckets=_STEP_BUCKETS_S,
            registry=self.registry,
        )
        self._texts = Histogram(
            "edgelora_encoder_batch_texts",
            "Texts in a step.",
            buckets=_BATCH_BUCKETS,
            registry=self.registry,
        )
        self._tokens = Counter(
            "edgelora_encoder_tokens_total", "Tokens that were run.", registry=self.registry
        )

    def note_step(self, step_s: float, rows: Sequence[Row]) -> None:
        """Counts a step; a StepObserver."""
        self._steps.observe(step_s)
        self._texts.observe(len(rows))
        self._tokens.inc(sum(row.num_tokens for row in rows))

    def watch(self, engine: EncoderEngine) -> None:
        """Says where to read what the engine holds; before the model is loaded it holds nothing."""

        def read() -> Iterable[Metric]:
            try:
                status = engine.status
            except ServiceUnavailableError:
                return
            yield gauge(
                "edgelora_encoder_stalled_seconds",
                "How long there has been work and no step.",
                engine.stalled_s(),
            )
            yield gauge(
                "edgelora_encoder_requests",
                "Requests that have not ended.",
                engine.num_open_requests,
            )
            yield from _totals(status)
            shares = self._labels.look(status.shares, self._clock())
            yield counters(
                "edgelora_encoder_adapter_step_seconds_total",
                "Each adapter's share of the time of the steps: the busiest by the start of their "
                "digest, the base model as base, and other.",
                "adapter",
                {each.label: each.share.step_s for each in shares},
            )
            yield counters(
                "edgelora_encoder_adapter_tokens_total",
                "Tokens run with an adapter.",
                "adapter",
                {each.label: each.share.num_prompt_tokens for each in shares},
            )

        self.read_on_loop(read)


def _totals(status: EncoderStatus) -> Iterable[Metric]:
    yield counter(
        "edgelora_encoder_failed_texts_total",
        "Texts the model failed on.",
        status.num_failed_texts,
    )
    yield gauge("edgelora_encoder_adapter_slots", "Adapter slots.", status.num_adapter_slots)
    yield gauges(
        "edgelora_encoder_adapter_slots_taken",
        "Slots with an adapter, or with one on its way.",
        "state",
        {"resident": status.num_resident_adapters, "loading": status.num_loading_adapters},
    )
    yield gauges(
        "edgelora_encoder_memory_bytes",
        "Memory of the model by what it holds.",
        "of",
        {
            "weights": status.weights_bytes,
            "adapter_slots": status.adapter_slots_bytes,
            "adapters": status.adapter_bytes,
        },
    )
