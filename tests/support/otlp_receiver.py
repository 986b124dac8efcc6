"""A stand-in for a collector of traces, written from the OTLP/HTTP specification.

https://opentelemetry.io/docs/specs/otlp/#otlphttp: POST /v1/traces, binary protobuf, perhaps gzip;
the answer is an ExportTraceServiceResponse with status 200.
"""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Status

_LIMIT_S = 30.0


@dataclass
class ReceivedSpan:
    """One span, in plain values."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Any] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    """Trace and span id of each."""


class OtlpReceiver:
    """Listens on a free port of the loopback."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.bodies: list[bytes] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                is_ours = (
                    self.path == "/v1/traces"
                    and self.headers["Content-Type"] == "application/x-protobuf"
                )
                if is_ours:
                    receiver.take(body)
                answer = ExportTraceServiceResponse().SerializeToString() if is_ours else b""
                self.send_response(200 if is_ours else 400)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """What EDGELORA_OTLP_ENDPOINT is set to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stops."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, body: bytes) -> None:
        """Reads one export."""
        found = [
            _received(scope_span, _values(resource.resource.attributes)["service.name"])
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for scope_span in scope.spans
        ]
        with self._changed:
            self.bodies.append(body)
            self.spans += found
            self._changed.notify_all()

    def wait_for(self, is_true: Any) -> list[ReceivedSpan]:
        """Returns all spans once the condition on them holds."""
        with self._changed:
            done = self._changed.wait_for(lambda: is_true(self.spans), _LIMIT_S)
            names = [(span.service, span.name) for span in self.spans]
            assert done, f"received only {names}"
            return list(self.spans)


def _received(span: Any, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        begin_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
