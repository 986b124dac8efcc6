"""How the Ollama dialect words an error."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from edgelora.errors import EdgeLoraError
from services.gateway.http.error_status import error_headers, http_status


class OllamaDialect:
    """`{"error": "..."}`."""

    def error_response(self, error: EdgeLoraError) -> Response:
        """The error as a whole answer."""
        return JSONResponse(
            error_document(error), status_code=http_status(error), headers=error_headers(error)
        )


def error_document(error: EdgeLoraError) -> dict[str, object]:
    """The error as a body, or as the last line of a stream that failed."""
    return {"error": error.message}
