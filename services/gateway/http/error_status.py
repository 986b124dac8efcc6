"""Which HTTP status an error has, in every dialect."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edgelora.error_tree import EdgeLoraError, MessageTooLargeError

_STATUS_OF_CODE: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "DATA_LOSS": 500,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_LEAST_RETRY_S = 1


def http_status(error: EdgeLoraError) -> int:
    """The status of an error."""
    return 413 if isinstance(error, MessageTooLargeError) else _STATUS_OF_CODE[error.code]


def error_headers(error: EdgeLoraError) -> dict[str, str]:
    """Retry-After where waiting helps (429 and 503 always have it), WWW-Authenticate for 401."""
    headers = {}
    status = http_status(error)
    if error.retry_after_s is not None or status in {429, 503}:
        wait_s = max(_LEAST_RETRY_S, math.ceil(error.retry_after_s or _LEAST_RETRY_S))
        headers["retry-after"] = str(wait_s)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers
