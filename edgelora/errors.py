"""The one exception tree, and its mapping to and from google.rpc.Status.

    EdgeLoraError
    ├── UnauthenticatedError        UNAUTHENTICATED       fix the API key
    ├── PermissionDeniedError       PERMISSION_DENIED     ask the operator
    ├── NotFoundError               NOT_FOUND             check the name
    │   └── AdapterNotFoundError    NOT_FOUND             check the name; foreign and unknown alike
    ├── InvalidRequestError         INVALID_ARGUMENT      fix the named field
    │   ├── PromptTooLongError      INVALID_ARGUMENT      shorten the prompt
    │   └── AdapterRejectedError    INVALID_ARGUMENT      fix the adapter
    ├── AdapterIncompatibleError    FAILED_PRECONDITION   register it for this base model
    ├── TicketExpiredError          FAILED_PRECONDITION   start again
    ├── AlreadyExistsError          ALREADY_EXISTS        read, then decide
    ├── QuotaExceededError          RESOURCE_EXHAUSTED    wait for your own quota
    ├── QueueFullError              RESOURCE_EXHAUSTED    wait, the node is busy
    ├── ResourcePressureError       RESOURCE_EXHAUSTED    wait, or free memory or storage
    ├── MessageTooLargeError        RESOURCE_EXHAUSTED    send less
    ├── WorkerLostError             UNAVAILABLE           start again
    ├── ServiceUnavailableError     UNAVAILABLE           retry after a delay
    ├── DataCorruptError            DATA_LOSS             register the adapter again
    ├── DeadlineExceededError       DEADLINE_EXCEEDED     allow more time
    ├── CancelledRequestError       CANCELLED             nothing
    └── InternalError               INTERNAL              report the request id

Domain code raises these; the server interceptor maps them to statuses; `from_rpc_error` maps a
status back to the same class, so that an error keeps its meaning across hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from edgelora.v1.error_reason_pb2 import ErrorReason

DOMAIN = "edgelora"
_PREFIX = "ERROR_REASON_"


class EdgeLoraError(Exception):
    """Anything that went wrong, with the field and the remedy in the message."""

    reason: ClassVar[ErrorReason] = ErrorReason.ERROR_REASON_INTERNAL
    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s


class UnauthenticatedError(EdgeLoraError):
    """The API key or seal is missing, unknown, forged or revoked."""

    reason = ErrorReason.ERROR_REASON_UNAUTHENTICATED_TENANT
    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDeniedError(EdgeLoraError):
    """The caller is known but may not do this."""

    reason = ErrorReason.ERROR_REASON_PERMISSION_DENIED
    code = grpc.StatusCode.PERMISSION_DENIED


class NotFoundError(EdgeLoraError):
    """A named thing does not exist."""

    reason = ErrorReason.ERROR_REASON_NOT_FOUND
    code = grpc.StatusCode.NOT_FOUND


class AdapterNotFoundError(NotFoundError):
    """The adapter is not in the caller's namespace, whether or not another tenant has it."""

    reason = ErrorReason.ERROR_REASON_ADAPTER_NOT_FOUND


class InvalidRequestError(EdgeLoraError):
    """A field is missing, malformed or out of range."""

    reason = ErrorReason.ERROR_REASON_REQUEST_INVALID
    code = grpc.StatusCode.INVALID_ARGUMENT


class PromptTooLongError(InvalidRequestError):
    """The prompt does not fit into the model's context."""

    reason = ErrorReason.ERROR_REASON_PROMPT_TOO_LONG


class AdapterRejectedError(InvalidRequestError):
    """An uploaded adapter is malformed or uses something that is not served."""

    reason = ErrorReason.ERROR_REASON_ADAPTER_REJECTED


class AdapterIncompatibleError(EdgeLoraError):
    """The adapter does not fit the base model being served."""

    reason = ErrorReason.ERROR_REASON_ADAPTER_INCOMPATIBLE
    code = grpc.StatusCode.FAILED_PRECONDITION


class TicketExpiredError(EdgeLoraError):
    """The lease expired or was given back."""

    reason = ErrorReason.ERROR_REASON_TICKET_EXPIRED
    code = grpc.StatusCode.FAILED_PRECONDITION


class AlreadyExistsError(EdgeLoraError):
    """The name is taken, or changed since it was read."""

    reason = ErrorReason.ERROR_REASON_ALREADY_EXISTS
    code = grpc.StatusCode.ALREADY_EXISTS


class QuotaExceededError(EdgeLoraError):
    """The tenant's own quota is used up."""

    reason = ErrorReason.ERROR_REASON_TENANT_QUOTA_EXCEEDED
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class QueueFullError(EdgeLoraError):
    """The node's queue is full."""

    reason = ErrorReason.ERROR_REASON_QUEUE_FULL
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class ResourcePressureError(EdgeLoraError):
    """The device has no memory or storage left for this."""

    reason = ErrorReason.ERROR_REASON_RESOURCE_PRESSURE
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class MessageTooLargeError(EdgeLoraError):
    """A message is larger than the stated limit."""

    reason = ErrorReason.ERROR_REASON_MESSAGE_TOO_LARGE
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class WorkerLostError(EdgeLoraError):
    """The worker that ran the request is gone."""

    reason = ErrorReason.ERROR_REASON_WORKER_LOST
    code = grpc.StatusCode.UNAVAILABLE


class ServiceUnavailableError(EdgeLoraError):
    """A service this request needs does not answer."""

    reason = ErrorReason.ERROR_REASON_SERVICE_UNAVAILABLE
    code = grpc.StatusCode.UNAVAILABLE


class DataCorruptError(EdgeLoraError):
    """Bytes do not match their digest."""

    reason = ErrorReason.ERROR_REASON_DATA_CORRUPT
    code = grpc.StatusCode.DATA_LOSS


class DeadlineExceededError(EdgeLoraError):
    """The deadline passed."""

    reason = ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledRequestError(EdgeLoraError):
    """The request was cancelled."""

    reason = ErrorReason.ERROR_REASON_CANCELLED
    code = grpc.StatusCode.CANCELLED


class InternalError(EdgeLoraError):
    """A fault of ours; the log has the details under the request id."""


def _subclasses(root: type[EdgeLoraError]) -> Iterator[type[EdgeLoraError]]:
    for child in root.__subclasses__():
        yield child
        yield from _subclasses(child)


ERROR_CLASSES: Mapping[int, type[EdgeLoraError]] = {
    error_class.reason: error_class for error_class in _subclasses(EdgeLoraError)
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


def to_status(error: EdgeLoraError) -> status_pb2.Status:
    """Builds an error's status: ErrorInfo always, BadRequest and RetryInfo where they apply."""
    status = status_pb2.Status(code=error.code.value[0], message=error.message)
    reason = ErrorReason.Name(error.reason).removeprefix(_PREFIX)
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=error.metadata)
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
        return plain(details or code.name)
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
