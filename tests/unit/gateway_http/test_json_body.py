"""JSON bodies have one meaning, or none (rows T29, T30, P10, P11)."""

import json

import pytest

from edgelora.errors import InvalidRequestError
from services.gateway.http.json_body import MAX_BRACKETS, MAX_DEPTH, parse_object


def test_a_plain_object_is_read_as_it_is():
    body = '{"a": [1, -2.5, "é🤗", true, null], "b": {"c": 1e3}}'.encode()
    assert parse_object(body) == {"a": [1, -2.5, "é🤗", True, None], "b": {"c": 1000.0}}


def test_a_whole_surrogate_pair_is_one_character():
    assert parse_object(b'{"a": "\\ud83e\\udd17"}') == {"a": "🤗"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{} x", "not valid JSON"),
        (b'{"a": 1}{"a": 2}', "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": "\x01"}', "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"a"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        ('{"a": "你好"}'.encode("gbk"), "must be UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "must be UTF-8"),
        (b'{"a": "\xff\xfe"}', "must be UTF-8"),
        (b'{"a": "\xed\xa0\xbd"}', "must be UTF-8"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "same key twice"),
        (b'{"a": [' + b"[]," * MAX_BRACKETS + b"[]]}", "opening brackets"),
        (b'{"a": NaN}', "NaN or infinite"),
        (b'{"a": [-Infinity]}', "NaN or infinite"),
        (b'{"a": 1e400}', "too large"),
        (b'{"a": -1e400}', "too large"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "too large"),
        (b'{"a": -' + b"9" * 20 + b"}", "too large"),
        (b'{"a": "\\ud83d"}', "surrogate"),
        (b'{"\\uDC00": 1}', "surrogate"),
        (b'{"a": ["\\ud83d\\u0041"]}', "surrogate"),
        (b"[" * 100_000, "opening brackets"),
        (b'{"a":' * 40_000, "not valid JSON|nested"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(body, said):
    with pytest.raises(InvalidRequestError, match=said):
        parse_object(body)


def test_nesting_up_to_the_limit_is_read():
    levels = MAX_DEPTH - 1
    body = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    assert json.dumps(parse_object(body)).count("[") == levels


@pytest.mark.parametrize(
    "body",
    [
        b'{"k": "canary-4711", "k": "canary-4711"}',
        b'{"canary-4711": "\\ud83d"}',
        b'{"canary-4711": }',
        b'{"canary-4711": \xff\xfe}',
        b'{"canary-4711": 1e400}',
    ],
)
def test_an_error_repeats_nothing_of_the_body(body):
    with pytest.raises(InvalidRequestError) as caught:
        parse_object(body)
    assert "canary" not in caught.value.message
    assert caught.value.field is None
