"""The exception tree (`edgelora.error_tree`), and its mapping to and from google.rpc.Status.

Domain code raises these; the server interceptor maps them to statuses; `from_rpc_error` maps a
status back to the same class, so that an error keeps its meaning across hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from edgelora.error_tree import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    AdapterRejectedError,
    AlreadyExistsError,
    CancelledRequestError,
    DataCorruptError,
    DeadlineExceededError,
    EdgeLoraError,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
    NotFoundError,
    PermissionDeniedError,
    PromptTooLongError,
    QueueFullError,
    QuotaExceededError,
    ResourcePressureError,
    RouterMissingError,
    ServiceUnavailableError,
    TicketExpiredError,
    UnauthenticatedError,
    WorkerLostError,
)
from edgelora.v1.error_reason_pb2 import ErrorReason

__all__ = [
    "ERROR_CLASSES",
    "AdapterIncompatibleError",
    "AdapterNotFoundError",
    "AdapterRejectedError",
    "AlreadyExistsError",
    "CancelledRequestError",
    "DataCorruptError",
    "DeadlineExceededError",
    "EdgeLoraError",
    "InternalError",
    "InvalidRequestError",
    "MessageTooLargeError",
    "NotFoundError",
    "PermissionDeniedError",
    "PromptTooLongError",
    "QueueFullError",
    "QuotaExceededError",
    "ResourcePressureError",
    "RouterMissingError",
    "ServiceUnavailableError",
    "TicketExpiredError",
    "UnauthenticatedError",
    "WorkerLostError",
    "from_rpc_error",
    "from_status",
    "to_status",
]

DOMAIN = "edgelora"
_PREFIX = "ERROR_REASON_"


def _subclasses(root: type[EdgeLoraError]) -> Iterator[type[EdgeLoraError]]:
    for child in root.__subclasses__():
        yield child
        yield from _subclasses(child)


ERROR_CLASSES: Mapping[int, type[EdgeLoraError]] = {
    ErrorReason.Value(_PREFIX + error_class.reason): error_class
    for error_class in _subclasses(EdgeLoraError)
}
"""Every reason but UNSPECIFIED has exactly one class."""

_CLASS_OF_PLAIN_CODE: Mapping[grpc.StatusCode, type[EdgeLoraError]] = {
    grpc.StatusCode.UNAVAILABLE: ServiceUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: MessageTooLargeError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
}
"""Statuses gRPC itself makes, which carry no ErrorInfo."""
_PLAIN_WORDS: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "the deadline passed: allow more time, or try again later"
}
"""Where gRPC's own words tell no remedy."""


def to_status(error: EdgeLoraError) -> status_pb2.Status:
    """Builds an error's status: ErrorInfo always, BadRequest and RetryInfo where they apply."""
    number: int = grpc.StatusCode[error.code].value[0]
    status = status_pb2.Status(code=number, message=error.message)
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    status.details.add().Pack(info)
    if error.field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=error.message
        )
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(max(0, round(error.retry_after_s * 1000)))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def from_rpc_error(error: grpc.RpcError) -> EdgeLoraError:
    """Turns what a gRPC call raised back into the class the server raised."""
    code = error.code()
    details = error.details() or ""
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]
    except ValueError:
        status = None
    if status is None:
        plain = _CLASS_OF_PLAIN_CODE.get(code, InternalError)
        return plain(_PLAIN_WORDS.get(code) or details or code.name)
    return from_status(status)


def from_status(status: status_pb2.Status) -> EdgeLoraError:
    """Rebuilds an error from a status made by `to_status`."""
    error_class: type[EdgeLoraError] = InternalError
    field: str | None = None
    metadata: dict[str, str] = {}
    retry_after_s: float | None = None
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        bad_request = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            metadata = dict(info.metadata)
            name = _PREFIX + info.reason
            if name in ErrorReason.keys():  # noqa: SIM118 - an enum wrapper, not a dict
                error_class = ERROR_CLASSES.get(ErrorReason.Value(name), InternalError)
        elif detail.Unpack(bad_request) and bad_request.field_violations:
            field = bad_request.field_violations[0].field
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToMilliseconds() / 1000
    return error_class(status.message, field=field, metadata=metadata, retry_after_s=retry_after_s)
