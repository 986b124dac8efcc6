"""The span of one request of a tenant; what the request calls goes on in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from edgelora.errors import CancelledRequestError, EdgeLoraError, InternalError
from services.chassis.tracing import Value, current_span, inside

BASE = "base"
"""The model of a request without an adapter."""


@contextmanager
def request_span(
    name: str,
    queue_s: Callable[[], float | None],
    attributes: Callable[[], Mapping[str, Value]],
) -> Iterator[None]:
    """Makes the span; both callables are asked at its end. `queue_s`: None before the ticket."""
    reason: str | None = None
    with inside(current_span().child(name)) as span:
        try:
            yield
        except EdgeLoraError as error:
            reason = error.reason
            raise
        except asyncio.CancelledError:
            reason = CancelledRequestError.reason
            raise
        except Exception:
            reason = InternalError.reason
            raise
        finally:
            if (waited_s := queue_s()) is not None:
                span.phase("queue", 0.0, waited_s)
            span.set(attributes())
            span.end(reason)
