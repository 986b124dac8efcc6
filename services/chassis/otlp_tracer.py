"""The tracer behind `services.chassis.tracing`: OpenTelemetry's SDK, OTLP over HTTP (protobuf).

Spans are sent in batches from a thread of the SDK; when the collector is slow or away they are
dropped, and no request waits. Loaded only where an endpoint is given.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import time
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import Tracer as OtelTracer

from services.chassis.tracing import Value

_EXPORT_TIMEOUT_S = 2
_BATCH_MS = 1000
_CLOSE_LIMIT_MS = 3000
_MAX_ATTRIBUTE_CHARS = 256
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NS = 1_000_000_000


class OtlpTracer:
    """A Tracer that sends to a collector."""

    def __init__(self, service: str, endpoint: str) -> None:
        # What goes wrong with a collector is its own line a batch; the SDK would say more.
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,  # and nothing from OTEL_* variables
            resource=Resource(
                {
                    "service.namespace": "edgelora",
                    "service.name": service,
                    "service.version": importlib.metadata.version("edgelora"),
                }
            ),
            span_limits=SpanLimits(max_attribute_length=_MAX_ATTRIBUTE_CHARS),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(
            endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_TIMEOUT_S
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=_BATCH_MS)
        )
        self._tracer = self._provider.get_tracer("edgelora")

    def begin(self, name: str, parent: str | None, link: str | None) -> OtlpSpan:
        """See Tracer."""
        above, beside = _parsed(parent), _parsed(link)
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(above)) if above else None,
            kind=SpanKind.SERVER,
            links=[Link(beside)] if beside else None,
        )
        return OtlpSpan(self._tracer, span)

    def close(self) -> None:
        """See Tracer."""
        self._provider.force_flush(_CLOSE_LIMIT_MS)
        self._provider.shutdown()


class OtlpSpan:
    """A Span that is sent."""

    def __init__(self, tracer: OtelTracer, span: OtelSpan) -> None:
        self._tracer = tracer
        self._span = span
        self._begun_ns = time.time_ns()
        self._begun_s = time.monotonic()

    @property
    def traceparent(self) -> str | None:
        """See Span."""
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def child(self, name: str) -> OtlpSpan:
        """See Span."""
        inner = self._tracer.start_span(name, context=set_span_in_context(self._span))
        return OtlpSpan(self._tracer, inner)

    def name(self, name: str) -> None:
        """See Span."""
        self._span.update_name(name)

    def set(self, attributes: Mapping[str, Value]) -> None:
        """See Span."""
        self._span.set_attributes(attributes)

    def phase(
        self, name: str, begin_s: float, end_s: float, attributes: Mapping[str, Value] | None = None
    ) -> None:
        """See Span."""
        inner = self._tracer.start_span(
            name,
            context=set_span_in_context(self._span),
            attributes=attributes,
            start_time=self._at_ns(begin_s),
        )
        inner.end(self._at_ns(max(begin_s, end_s)))

    def end(self, reason: str | None = None) -> None:
        """See Span."""
        if reason is not None:
            self._span.set_attribute("error.type", reason)
            self._span.set_status(StatusCode.ERROR)
        # Its length is a monotonic clock's, whatever the wall clock did meanwhile.
        self._span.end(self._at_ns(time.monotonic() - self._begun_s))

    def _at_ns(self, since_begin_s: float) -> int:
        return self._begun_ns + round(since_begin_s * _NS)


def _parsed(traceparent: str | None) -> SpanContext | None:
    """By W3C Trace Context, version 00; None for anything else."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is None:
        return None
    context = SpanContext(
        trace_id=int(match[1], 16),
        span_id=int(match[2], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(match[3], 16)),
    )
    return context if context.is_valid else None
