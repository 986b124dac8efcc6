"""The one exception tree.

    EdgeLoraError
    ├── UnauthenticatedError        UNAUTHENTICATED       fix the API key
    ├── PermissionDeniedError       PERMISSION_DENIED     ask the operator
    ├── NotFoundError               NOT_FOUND             check the name
    │   └── AdapterNotFoundError    NOT_FOUND             check the name; foreign and unknown alike
    ├── InvalidRequestError         INVALID_ARGUMENT      fix the named field
    │   ├── PromptTooLongError      INVALID_ARGUMENT      shorten the prompt
    │   └── AdapterRejectedError    INVALID_ARGUMENT      fix the adapter
    ├── AdapterIncompatibleError    FAILED_PRECONDITION   register it for this base model
    ├── RouterMissingError          FAILED_PRECONDITION   train a router, or name an adapter
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

Domain code raises these, and `edgelora.errors` maps them to statuses and back. Nothing here needs
gRPC, so that a process which only reads adapters does without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class EdgeLoraError(Exception):
    """Anything that went wrong, with the field and the remedy in the message."""

    reason: ClassVar[str] = "INTERNAL"
    """Name of its `ErrorReason`, without the prefix."""
    code: ClassVar[str] = "INTERNAL"
    """Name of its gRPC status."""

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

    reason = "UNAUTHENTICATED_TENANT"
    code = "UNAUTHENTICATED"


class PermissionDeniedError(EdgeLoraError):
    """The caller is known but may not do this."""

    reason = "PERMISSION_DENIED"
    code = "PERMISSION_DENIED"


class NotFoundError(EdgeLoraError):
    """A named thing does not exist."""

    reason = "NOT_FOUND"
    code = "NOT_FOUND"


class AdapterNotFoundError(NotFoundError):
    """The adapter is not in the caller's namespace, whether or not another tenant has it."""

    reason = "ADAPTER_NOT_FOUND"


class InvalidRequestError(EdgeLoraError):
    """A field is missing, malformed or out of range."""

    reason = "REQUEST_INVALID"
    code = "INVALID_ARGUMENT"


class PromptTooLongError(InvalidRequestError):
    """The prompt does not fit into the model's context."""

    reason = "PROMPT_TOO_LONG"


class AdapterRejectedError(InvalidRequestError):
    """An uploaded adapter is malformed or uses something that is not served."""

    reason = "ADAPTER_REJECTED"


class AdapterIncompatibleError(EdgeLoraError):
    """The adapter does not fit the base model being served."""

    reason = "ADAPTER_INCOMPATIBLE"
    code = "FAILED_PRECONDITION"


class RouterMissingError(EdgeLoraError):
    """The node has no router that could choose an adapter."""

    reason = "ROUTER_MISSING"
    code = "FAILED_PRECONDITION"


class TicketExpiredError(EdgeLoraError):
    """The lease expired or was given back."""

    reason = "TICKET_EXPIRED"
    code = "FAILED_PRECONDITION"


class AlreadyExistsError(EdgeLoraError):
    """The name is taken, or changed since it was read."""

    reason = "ALREADY_EXISTS"
    code = "ALREADY_EXISTS"


class QuotaExceededError(EdgeLoraError):
    """The tenant's own quota is used up."""

    reason = "TENANT_QUOTA_EXCEEDED"
    code = "RESOURCE_EXHAUSTED"


class QueueFullError(EdgeLoraError):
    """The node's queue is full."""

    reason = "QUEUE_FULL"
    code = "RESOURCE_EXHAUSTED"


class ResourcePressureError(EdgeLoraError):
    """The device has no memory or storage left for this."""

    reason = "RESOURCE_PRESSURE"
    code = "RESOURCE_EXHAUSTED"


class MessageTooLargeError(EdgeLoraError):
    """A message is larger than the stated limit."""

    reason = "MESSAGE_TOO_LARGE"
    code = "RESOURCE_EXHAUSTED"


class WorkerLostError(EdgeLoraError):
    """The worker that ran the request is gone."""

    reason = "WORKER_LOST"
    code = "UNAVAILABLE"


class ServiceUnavailableError(EdgeLoraError):
    """A service this request needs does not answer."""

    reason = "SERVICE_UNAVAILABLE"
    code = "UNAVAILABLE"


class DataCorruptError(EdgeLoraError):
    """Bytes do not match their digest."""

    reason = "DATA_CORRUPT"
    code = "DATA_LOSS"


class DeadlineExceededError(EdgeLoraError):
    """The deadline passed."""

    reason = "DEADLINE_EXCEEDED"
    code = "DEADLINE_EXCEEDED"


class CancelledRequestError(EdgeLoraError):
    """The request was cancelled."""

    reason = "CANCELLED"
    code = "CANCELLED"


class InternalError(EdgeLoraError):
    """A fault of ours; the log has the details under the request id."""
