"""The interceptor of every server: request id, deadline, errors to statuses, one log line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
)
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from edgelora.errors import (
    DeadlineExceededError,
    EdgeLoraError,
    InternalError,
    InvalidRequestError,
    to_status,
)
from services.chassis.logs import code_places, get_logger
from services.chassis.tracing import (
    NO_SPAN,
    TRACEPARENT_KEY,
    CallersTrace,
    Span,
    begin_call,
    is_traced,
)

REQUEST_ID_KEY = "x-request-id"
_MAX_REQUEST_ID_LENGTH = 64
_MAX_DRAIN_S = 2.0
_DRAIN_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePolicy:
    """How long a call may take when its client set no deadline, or a longer one."""

    max_s: float = 600.0
    unbounded_methods: frozenset[str] = frozenset()
    """Full method names (`/package.Service/Method`) of streams that never end by themselves."""

    def limit_s(self, method: str, remaining_s: float | None) -> float | None:
        """Returns the seconds the call may take, None for no limit."""
        if method in self.unbounded_methods:
            return remaining_s
        return self.max_s if remaining_s is None else min(remaining_s, self.max_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """Which calls of a server are traced, where the process has a tracer."""

    starts: bool = False
    """Whether those that no traced caller made are, too."""
    callers: CallersTrace = "parent"
    """Services are called by services; a door of clients says something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCall:
    """How one rpc ended."""

    method: str
    """Full name, `/package.Service/Method`, of a method that exists."""
    code: str
    """Name of its status."""
    reason: str | None
    """Of the error it ended with, None for one that ended well or was cancelled."""
    duration_s: float


CallObserver = Callable[[EndedCall], None]
"""Called on the event loop, once for each end; must be quick and must not raise."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every handler of our own services; health and reflection stay as they are."""

    def __init__(
        self,
        deadlines: DeadlinePolicy,
        *,
        trust_request_id: bool,
        observe: CallObserver | None = None,
        traces: TracePolicy | None = None,
    ) -> None:
        self._deadlines = deadlines
        self._trust_request_id = trust_request_id
        self._observe = observe
        self._traces = traces or TracePolicy()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the handler wrapped for its shape, as coroutine or async generator.

        gRPC runs anything else in a thread pool, hence one wrapper for each shape.
        """
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith("/grpc."):
            return handler
        make: Callable[..., Any]
        match (handler.request_streaming, handler.response_streaming):
            case (False, False):
                make = grpc.unary_unary_rpc_method_handler
                behaviour = self._wrap_unary(method, handler.unary_unary)
            case (True, False):
                make = grpc.stream_unary_rpc_method_handler
                behaviour = self._wrap_unary(method, handler.stream_unary)
            case (False, True):
                make = grpc.unary_stream_rpc_method_handler
                behaviour = self._wrap_stream(method, handler.unary_stream)
            case _:
                make = grpc.stream_stream_rpc_method_handler
                behaviour = self._wrap_stream(method, handler.stream_stream)
        return make(behaviour, _tolerant(handler.request_deserializer), handler.response_serializer)

    def _wrap_unary(self, method: str, inner: Callable[..., Awaitable[Any]]) -> Any:
        async def unary(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            with self._call(method, context) as call:
                try:
                    async with asyncio.timeout(call.limit_s):
                        return await inner(_decoded(request), context)
                except EdgeLoraError as error:
                    await _drain(request)
                    await call.abort(error)
                except TimeoutError:
                    await call.abort(DeadlineExceededError("the deadline passed"))
                except (grpc.aio.AbortError, asyncio.CancelledError):
                    raise
                except Exception as error:  # noqa: BLE001 - the one place that answers INTERNAL
                    await call.abort_unexpected(error)

        return unary

    def _wrap_stream(self, method: str, inner: Callable[..., AsyncGenerator[Any, None]]) -> Any:
        async def stream(
            request: Any, context: grpc.aio.ServicerContext[Any, Any]
        ) -> AsyncIterator[Any]:
            with self._call(method, context) as call:
                try:
                    async with asyncio.timeout(call.limit_s):
                        # However this ends, the handler's own finally runs now, not when the
                        # garbage collector finds it.
                        async with aclosing(inner(_decoded(request), context)) as responses:
                            async for response in responses:
                                yield response
                except EdgeLoraError as error:
                    await call.abort(error)
                except TimeoutError:
                    await call.abort(DeadlineExceededError("the deadline passed"))
                except (grpc.aio.AbortError, asyncio.CancelledError):
                    raise
                except Exception as error:  # noqa: BLE001 - the one place that answers INTERNAL
                    await call.abort_unexpected(error)

        return stream

    @contextmanager
    def _call(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> Iterator[_Call]:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=self._request_id(context))
        remaining_s = context.time_remaining()
        call = _Call(context, self._deadlines.limit_s(method, remaining_s))
        started = time.monotonic()
        span = self._begin_span(method, context) if is_traced() else NO_SPAN
        try:
            yield call
        except (asyncio.CancelledError, GeneratorExit):
            call.code = "CANCELLED"
            raise
        finally:
            duration_s = time.monotonic() - started
            get_logger().info(
                "rpc_finished",
                rpc=method,
                code=call.code,
                duration_ms=round(duration_s * 1000, 1),
            )
            span.set({"rpc.method": method.lstrip("/"), "rpc.response.status_code": call.code})
            span.end(call.reason)
            if self._observe is not None:
                self._observe(
                    EndedCall(
                        method=method, code=call.code, reason=call.reason, duration_s=duration_s
                    )
                )

    def _begin_span(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> Span:
        callers = [
            value
            for key, value in context.invocation_metadata() or ()
            if key == TRACEPARENT_KEY and isinstance(value, str)
        ]
        return begin_call(
            method.rpartition(".")[2],
            callers[0] if len(callers) == 1 else None,
            starts=self._traces.starts,
            callers_trace=self._traces.callers,
        )

    def _request_id(self, context: grpc.aio.ServicerContext[Any, Any]) -> str:
        if self._trust_request_id:
            for key, value in context.invocation_metadata() or ():
                if key == REQUEST_ID_KEY and isinstance(value, str):
                    return value[:_MAX_REQUEST_ID_LENGTH]
        return uuid4().hex


class _Undecodable:
    """Stands for a message protobuf could not read, so that the call can end in a clear error."""


def _tolerant(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def deserialize_or_mark(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _Undecodable()

    return deserialize_or_mark


def _decoded(request: Any) -> Any:
    """Returns a request, or an iterator of requests, that raises for undecodable messages."""
    if isinstance(request, AsyncIterable):
        return _decoded_stream(request)
    if isinstance(request, _Undecodable):
        raise InvalidRequestError(
            "the request can not be decoded: is every text valid UTF-8?", field="request"
        )
    return request


async def _decoded_stream(requests: AsyncIterable[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _decoded(request)


async def _drain(request: Any) -> None:
    """Reads what the client of a refused stream is still sending, for a bounded time.

    A client that writes into a call which has ended may see INTERNAL in place of the refusal
    (grpc/grpc#36066), so the refusal waits until the client pauses or ends.
    """
    if not isinstance(request, AsyncIterable):
        return
    messages = aiter(request)
    with suppress(TimeoutError):
        async with asyncio.timeout(_MAX_DRAIN_S):
            while True:
                async with asyncio.timeout(_DRAIN_PAUSE_S):
                    if await anext(messages, None) is None:
                        return


class _Call:
    """One running call: its limit, and how it ended."""

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], limit_s: float | None) -> None:
        self._context = context
        self.limit_s = limit_s
        self.code = "OK"
        self.reason: str | None = None

    async def abort(self, error: EdgeLoraError) -> NoReturn:
        self.code, self.reason = error.code, error.reason
        structlog.contextvars.bind_contextvars(reason=error.reason, field=error.field)
        await self._context.abort_with_status(rpc_status.to_status(to_status(error)))
        raise AssertionError("abort always raises")

    async def abort_unexpected(self, error: Exception) -> NoReturn:
        get_logger().error(
            "unexpected_error", error_type=type(error).__name__, frames=code_places(error)
        )
        request_id = structlog.contextvars.get_contextvars().get("request_id", "")
        message = f"an internal error occurred: report request id {request_id}"
        await self.abort(InternalError(message, metadata={"request_id": str(request_id)}))
