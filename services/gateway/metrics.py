"""What the gateway counts: requests from the user's side, and the calls of both doors."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric
from starlette.types import ASGIApp

from edgelora.errors import QuotaExceededError
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.metrics import Metrics, counter, gauge, gauges
from services.gateway.authentication import Authentication
from services.gateway.encoding.encodings import Encodings
from services.gateway.encoding.ended import EndedEncoding
from services.gateway.ended_generation import EndedGeneration
from services.gateway.ended_request import EndedRequest
from services.gateway.generation import Generations
from services.gateway.http.observed_app import EndedHttpCall, ObservedApp
from services.gateway.readiness import Readiness

_WAIT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TOKEN_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_TOTAL_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_HTTP_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
_CLASS = ["priority"]
_OPERATION_AND_CLASS = ["operation", "priority"]


class GatewayMetrics(Metrics):
    """The metrics of one gateway."""

    def __init__(self, address: str) -> None:
        super().__init__("gateway", address)
        registry = self.registry
        self._ends = Counter(
            "edgelora_generations_total",
            "Generations by class and end: ok, cancelled, or the reason of an error.",
            ["priority", "end"],
            registry=registry,
        )
        self._first_token = Histogram(
            "edgelora_time_to_first_token_seconds",
            "From acceptance to the first token (TTFT).",
            _CLASS,
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._each_token = Histogram(
            "edgelora_time_per_output_token_seconds",
            "Mean time of a generation's tokens after the first (TPOT).",
            _CLASS,
            buckets=_TOKEN_BUCKETS_S,
            registry=registry,
        )
        self._queue = Histogram(
            "edgelora_queue_time_seconds",
            "From acceptance to the ticket.",
            _CLASS,
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._total = Histogram(
            "edgelora_generation_duration_seconds",
            "From acceptance to the end of whole answers.",
            _CLASS,
            buckets=_TOTAL_BUCKETS_S,
            registry=registry,
        )
        self._tokens = Counter(
            "edgelora_tokens_total",
            "Tokens of generations that have ended, by class and kind: prompt or output.",
            ["priority", "kind"],
            registry=registry,
        )
        self._engine = Counter(
            "edgelora_generation_engine_seconds_total",
            "Share of the engine's time that ended generations took, by class.",
            _CLASS,
            registry=registry,
        )
        self._encodings = Counter(
            "edgelora_encodings_total",
            "Encodings by operation, class and end: ok, cancelled, or the reason of an error.",
            [*_OPERATION_AND_CLASS, "end"],
            registry=registry,
        )
        self._encoding_times = Histogram(
            "edgelora_encoding_duration_seconds",
            "From acceptance to the end of whole answers of the encoder.",
            _OPERATION_AND_CLASS,
            buckets=_TOKEN_BUCKETS_S,
            registry=registry,
        )
        self._texts = Counter(
            "edgelora_encoded_texts_total",
            "Texts of encodings that were answered, by operation and class.",
            _OPERATION_AND_CLASS,
            registry=registry,
        )
        self._encoded_tokens = Counter(
            "edgelora_encoded_tokens_total",
            "Tokens of encodings that have ended, by operation and class.",
            _OPERATION_AND_CLASS,
            registry=registry,
        )
        self._encoding_engine = Counter(
            "edgelora_encoding_engine_seconds_total",
            "Share of the encoder's time that ended encodings took, by operation and class.",
            _OPERATION_AND_CLASS,
            registry=registry,
        )
        self._quotas = Counter(
            "edgelora_quota_refusals_total",
            "Generations and encodings refused by a quota of their tenant, by quota.",
            ["quota"],
            registry=registry,
        )
        self._http = Histogram(
            "edgelora_http_duration_seconds",
            "Time of an HTTP call until its end, by route template; status none: not answered.",
            ["door", "method", "route", "status"],
            buckets=_HTTP_BUCKETS_S,
            registry=registry,
        )

    def watch(
        self,
        generations: Generations,
        encodings: Encodings,
        readiness: Readiness,
        authentication: Authentication,
    ) -> None:
        """Says where to read what the gateway holds."""

        def read() -> Iterable[Metric]:
            yield gauge(
                "edgelora_generations_running",
                "Generations that have not ended.",
                generations.num_running,
            )
            yield gauge(
                "edgelora_encodings_running",
                "Encodings that have not ended.",
                encodings.num_running,
            )
            yield gauges(
                "edgelora_service_ready",
                "Whether a service behind the gateway is ready: 1 or 0.",
                "service",
                {name: float(is_ready) for name, is_ready in readiness.services.items()},
            )
            yield counter(
                "edgelora_authentication_failures_total",
                "Calls without a valid credential, over every door.",
                authentication.num_refused,
            )

        self.read_on_loop(read)

    def note_end(self, ended: EndedGeneration) -> None:
        """Counts one generation; an EndObserver."""
        error = ended.error
        priority = _class_name(ended)
        self._ends.labels(priority, _end_name(ended)).inc()
        self._note_quota(ended)
        if ended.queue_s is not None:
            self._queue.labels(priority).observe(ended.queue_s)
        if ended.time_to_first_token_s is not None:
            self._first_token.labels(priority).observe(ended.time_to_first_token_s)
        if ended.time_per_output_token_s is not None:
            self._each_token.labels(priority).observe(ended.time_per_output_token_s)
        if error is None:
            self._total.labels(priority).observe(ended.total_s)
        self._engine.labels(priority).inc(ended.engine_s)
        self._tokens.labels(priority, "prompt").inc(ended.num_prompt_tokens)
        self._tokens.labels(priority, "output").inc(ended.num_output_tokens)

    def note_encoding(self, ended: EndedEncoding) -> None:
        """Counts one encoding; an EndObserver."""
        labels = ended.operation, _class_name(ended)
        self._encodings.labels(*labels, _end_name(ended)).inc()
        self._note_quota(ended)
        if ended.error is None:
            self._encoding_times.labels(*labels).observe(ended.total_s)
            self._texts.labels(*labels).inc(ended.num_texts)
        self._encoded_tokens.labels(*labels).inc(ended.num_prompt_tokens)
        self._encoding_engine.labels(*labels).inc(ended.engine_s)

    def observed(self, app: ASGIApp, door: str) -> ASGIApp:
        """An application whose calls are counted; `door`: tenants or operator."""

        def note(call: EndedHttpCall) -> None:
            status = "none" if call.status is None else str(call.status)
            self._http.labels(door, call.method, call.route, status).observe(call.duration_s)

        return ObservedApp(app, note)

    def _note_quota(self, ended: EndedRequest) -> None:
        if isinstance(ended.error, QuotaExceededError):
            self._quotas.labels(_quota(ended.error)).inc()


def _class_name(ended: EndedRequest) -> str:
    return PriorityClass.Name(ended.priority).removeprefix("PRIORITY_CLASS_").lower()


def _end_name(ended: EndedRequest) -> str:
    return "ok" if ended.error is None else ended.error.reason.lower()


def _quota(error: QuotaExceededError) -> str:
    """Which one it was: admission names it in the metadata."""
    return next((key for key in error.metadata if key.startswith("max_")), "other")
