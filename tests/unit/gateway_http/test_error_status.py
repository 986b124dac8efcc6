"""Every error has one status (reliability.md, section 7) and OpenAI's shape."""

import json

import pytest

from edgelora.errors import ERROR_CLASSES, QueueFullError
from services.gateway.http.error_status import error_headers, http_status
from services.gateway.http.openai.dialect import OpenAiDialect

STATUSES = {
    "UnauthenticatedError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "AdapterNotFoundError": 404,
    "InvalidRequestError": 400,
    "PromptTooLongError": 400,
    "AdapterRejectedError": 400,
    "AdapterIncompatibleError": 409,
    "RouterMissingError": 409,
    "TicketExpiredError": 409,
    "AlreadyExistsError": 409,
    "QuotaExceededError": 429,
    "QueueFullError": 429,
    "ResourcePressureError": 429,
    "MessageTooLargeError": 413,
    "WorkerLostError": 503,
    "ServiceUnavailableError": 503,
    "DataCorruptError": 500,
    "DeadlineExceededError": 504,
    "CancelledRequestError": 499,
    "InternalError": 500,
}


def test_every_class_has_its_status():
    found = {kind.__name__: http_status(kind("x")) for kind in ERROR_CLASSES.values()}
    assert found == STATUSES


@pytest.mark.parametrize("kind", ERROR_CLASSES.values(), ids=lambda kind: kind.__name__)
def test_the_shape_is_openais(kind):
    response = OpenAiDialect().error_response(kind("what to do", field="model"))
    assert response.status_code == STATUSES[kind.__name__]
    error = json.loads(response.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["message"], error["param"]) == ("what to do", "model")
    assert ("retry-after" in response.headers) == (response.status_code in {429, 503})


@pytest.mark.parametrize(("wait_s", "said"), [(None, "1"), (0.01, "1"), (1.0, "1"), (2.1, "3")])
def test_the_wait_is_rounded_up(wait_s, said):
    assert error_headers(QueueFullError("x", retry_after_s=wait_s))["retry-after"] == said
