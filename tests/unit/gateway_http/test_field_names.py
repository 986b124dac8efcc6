"""Errors name fields as the client wrote them."""

import pytest

from edgelora.errors import AdapterNotFoundError, InvalidRequestError, QueueFullError
from services.gateway.http.field_names import by_prefix, renamed

RENAME = by_prefix(
    {
        "options.sampling.": "",
        "options.stop.": "",
        "options.stop.stop_strings": "stop",
        "adapters[0].adapter": "model",
        "messages[1]": "input[0]",
    }
)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("options.sampling.top_p", "top_p"),
        ("options.stop.stop_strings[3]", "stop[3]"),
        ("options.stop.max_tokens", "max_tokens"),
        ("adapters[0].adapter", "model"),
        ("messages[1].content", "input[0].content"),
        ("messages[12].content", "messages[12].content"),
        ("user", "user"),
    ],
)
def test_the_longest_prefix_decides(field, name):
    assert RENAME(field) == name


def test_text_and_field_of_an_error_are_renamed_and_its_class_stays():
    with pytest.raises(InvalidRequestError) as caught, renamed(RENAME):
        raise InvalidRequestError(
            "options.sampling.top_p must be a number", field="options.sampling.top_p"
        )
    assert (caught.value.message, caught.value.field) == ("top_p must be a number", "top_p")
    with pytest.raises(AdapterNotFoundError) as caught, renamed(RENAME):
        raise AdapterNotFoundError("no such (adapters[0].adapter)", field="adapters[0].adapter")
    assert caught.value.message == "no such (model)"


def test_an_error_without_a_field_stays_as_it_is():
    with pytest.raises(QueueFullError, match="the queue is full"), renamed(RENAME):
        raise QueueFullError("the queue is full")
