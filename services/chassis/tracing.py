"""What happened to one request, in all processes it went through, for a collector of traces.

Off unless EDGELORA_OTLP_ENDPOINT names a collector; then `services.chassis.otlp_tracer` is loaded,
which needs the extra `otel`. Traces start at the gateway's doors and nowhere else, and travel as
`traceparent` (W3C Trace Context) in the metadata of our own calls. What a client sends of that kind
is taken only where the operator said so. Nothing in a span is a tenant's name or anybody's text:
methods, digests, counts, reasons.

Off, a call costs a look at one variable.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol

from services.chassis.extras import install_command
from services.chassis.settings import ConfigError

TRACEPARENT_KEY = "traceparent"
ENDPOINT_VARIABLE = "EDGELORA_OTLP_ENDPOINT"
EXTRA = "otel"

Value = str | int | float | bool | list[str]
CallersTrace = Literal["ignore", "link", "parent"]
"""What becomes of a caller's traceparent: nothing, a link from our own trace, or our parent."""


class Span(Protocol):
    """A stretch of time in a trace."""

    @property
    def traceparent(self) -> str | None:
        """What a call made inside it sends along; None where there is no trace."""
        ...

    def child(self, name: str) -> Span:
        """Begins a span inside this one."""
        ...

    def name(self, name: str) -> None:
        """Names it anew."""
        ...

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Adds what is known."""
        ...

    def phase(
        self, name: str, begin_s: float, end_s: float, attributes: Mapping[str, Value] | None = None
    ) -> None:
        """Adds a span inside this one that is over, in seconds since this one began."""
        ...

    def end(self, reason: str | None = None) -> None:
        """Ends it; `reason`: of the error it ended with."""
        ...


class Tracer(Protocol):
    """Begins the spans that have no span of this process above them."""

    def begin(self, name: str, parent: str | None, link: str | None) -> Span:
        """`parent`, `link`: traceparents of others; one that is malformed counts as None."""
        ...

    def close(self) -> None:
        """Sends what is left, for a bounded time."""
        ...


class _NoSpan:
    traceparent: str | None = None

    def child(self, name: str) -> Span:
        return self

    def name(self, name: str) -> None: ...

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def phase(
        self, name: str, begin_s: float, end_s: float, attributes: Mapping[str, Value] | None = None
    ) -> None: ...

    def end(self, reason: str | None = None) -> None: ...


NO_SPAN: Span = _NoSpan()
"""Stands where nothing is traced."""

_tracer: Tracer | None = None
_current: ContextVar[Span] = ContextVar("span", default=NO_SPAN)
_remembered: dict[str, Span] = {}


def configure_tracing(service: str, endpoint: str) -> None:
    """Sends this process's traces to `endpoint`; empty: nowhere.

    Raises ConfigError when it is no HTTP address, or when the extra is not installed.
    """
    if not endpoint:
        return
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"{ENDPOINT_VARIABLE} must be an HTTP address such as http://127.0.0.1:4318"
        )
    try:
        module = importlib.import_module("services.chassis.otlp_tracer")
    except ImportError as error:
        raise ConfigError(
            f"{ENDPOINT_VARIABLE} needs the extra {EXTRA}: run {install_command(EXTRA)}, "
            "or leave the variable out"
        ) from error
    set_tracer(module.OtlpTracer(service, endpoint))


def set_tracer(tracer: Tracer | None) -> None:
    """Replaces the process's tracer."""
    global _tracer
    _tracer = tracer


def close_tracing() -> None:
    """Sends what is left; from then on nothing is traced."""
    if _tracer is not None:
        _tracer.close()
    set_tracer(None)


def is_traced() -> bool:
    """Whether this process has a tracer at all."""
    return _tracer is not None


def begin_call(
    name: str, callers: str | None, *, starts: bool, callers_trace: CallersTrace
) -> Span:
    """Begins the span of a call that came in, and makes it the current one of its task.

    `callers`: the caller's traceparent. `starts`: whether a call without one is traced.
    """
    tracer = _tracer
    if tracer is None:
        return NO_SPAN
    parent = callers if callers_trace == "parent" else None
    if parent is None and not starts:
        _current.set(NO_SPAN)
        return NO_SPAN
    span = tracer.begin(name, parent, callers if callers_trace == "link" else None)
    _current.set(span)
    return span


def current_span() -> Span:
    """The innermost span of the task."""
    return _current.get()


@contextmanager
def inside(span: Span) -> Iterator[Span]:
    """Makes a span the current one for what is inside; it goes on afterwards."""
    outer = _current.get()
    _current.set(span)
    try:
        yield span
    finally:
        _current.set(outer)


def remember(name: str) -> None:
    """Keeps the current span for work that others do for it; `forget` must follow."""
    if (span := _current.get()) is not NO_SPAN:
        _remembered[name] = span


def remembered(name: str) -> Span:
    """The span of that name; none where none is kept."""
    return _remembered.get(name, NO_SPAN)


def forget(name: str) -> None:
    """Lets a remembered span go."""
    _remembered.pop(name, None)
