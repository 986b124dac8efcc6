"""Client channels between services: short reconnects, bounded messages, our own errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import structlog

from edgelora.errors import from_rpc_error
from services.chassis.interceptor import REQUEST_ID_KEY
from services.chassis.tracing import TRACEPARENT_KEY, current_span

MAX_MESSAGE_BYTES = 4 * 2**20
"""Largest message any service sends or takes. Adapters travel in chunks."""

_RETRY_UNAVAILABLE = {
    "methodConfig": [
        {
            "name": [
                {"service": "edgelora.v1.AdapterStoreService", "method": method}
                for method in (
                    "ResolveAdapters",
                    "ListCandidates",
                    "ListAdapters",
                    "GetAdapter",
                    "GetTiers",
                    "PinAdapter",
                    "ReportResidency",
                )
            ]
            + [
                {"service": "edgelora.v1.SchedulerService", "method": method}
                for method in ("Renew", "Release", "GetQueues")
            ]
            + [{"service": "edgelora.v1.InferenceService", "method": "GetModel"}],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""Only unary calls that may safely run twice are retried, and only when nobody answered."""


def open_channel(address: str) -> grpc.aio.Channel:
    """Opens a channel to another service; the caller closes it."""
    return grpc.aio.insecure_channel(
        address,
        options=[
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # gRPC's name for how long one attempt may take: a busy service answers late.
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_retries", 1),
            ("grpc.service_config", json.dumps(_RETRY_UNAVAILABLE)),
            ("grpc.default_authority", "localhost"),
        ],
    )


def call_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata of an outgoing call: the request id, for the logs only, and the trace it is in."""
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    metadata = ((REQUEST_ID_KEY, str(request_id)),) if request_id else ()
    traceparent = current_span().traceparent
    return metadata if traceparent is None else (*metadata, (TRACEPARENT_KEY, traceparent))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises what a call raised as our own class, without the transport's frames."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
