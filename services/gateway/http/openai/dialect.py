"""How the OpenAI dialect words an error."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from edgelora.errors import AdapterNotFoundError, EdgeLoraError
from services.gateway.http.error_status import error_headers, http_status

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


class OpenAiDialect:
    """`{"error": {"message", "type", "param", "code"}}`."""

    def error_response(self, error: EdgeLoraError) -> Response:
        """The error as a whole answer."""
        return JSONResponse(
            error_document(error), status_code=http_status(error), headers=error_headers(error)
        )


def error_document(error: EdgeLoraError) -> dict[str, dict[str, object]]:
    """The error as a body, or as the last event of a stream that failed."""
    code = "model_not_found" if isinstance(error, AdapterNotFoundError) else error.reason.lower()
    return {
        "error": {
            "message": error.message,
            "type": _TYPES.get(http_status(error), "server_error"),
            "param": error.field,
            "code": code,
        }
    }
