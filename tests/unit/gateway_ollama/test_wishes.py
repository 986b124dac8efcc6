"""What a body asks for, beside its question."""

import json

import pytest

from edgelora.errors import InvalidRequestError
from edgelora.v1.inference_service_pb2 import GetModelResponse
from services.gateway.http.json_fields import Fields
from services.gateway.http.ollama.wishes import read_wishes

MODEL = GetModelResponse(name="base", max_context_tokens=100)


def wishes(**fields):
    return read_wishes(Fields({"model": "home", **fields}), MODEL)


@pytest.mark.parametrize(
    ("keep_alive", "frees"),
    [
        (0, True), (0.0, True), ("0", True), ("0s", True), ("0h0m", True), ("-0.0s", True),
        (-1, False), (300, False), ("5m", False), ("-1s", False), ("-1.0s", False),
        ("1h30m", False), ("1.5h", False), (".5s", False), (None, False),
    ],
)  # fmt: skip
def test_only_no_time_at_all_frees_the_model(keep_alive, frees):
    assert wishes(keep_alive=keep_alive).frees_model is frees


@pytest.mark.parametrize(
    "keep_alive", ["", "5", "m", "5 m", "1h 2m", "forever", True, [], "1" * 99]
)
def test_what_is_no_duration_is_refused(keep_alive):
    with pytest.raises(InvalidRequestError) as refused:
        wishes(keep_alive=keep_alive)
    assert refused.value.field == "keep_alive"


@pytest.mark.parametrize(
    ("num_predict", "max_tokens"), [(1, 1), (100, 100), (101, 100), (0, 100), (-1, 100), (-2, 100)]
)
def test_an_answer_ends_with_the_context_at_the_latest(num_predict, max_tokens):
    options = wishes(options={"num_predict": num_predict}).options
    assert options.stop.max_tokens == max_tokens
    assert not wishes(options={}).options.stop.HasField("max_tokens")


def test_a_stream_is_what_comes_unless_it_is_not_wanted():
    assert wishes().is_streamed
    assert wishes(stream=None).is_streamed
    assert not wishes(stream=False).is_streamed


def test_a_schema_goes_on_as_it_is():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert json.loads(wishes(format=schema).options.constraint.json_schema) == schema
    assert wishes(format="json").options.constraint.json_object
    assert not wishes(format="").options.HasField("constraint")


def test_an_error_has_the_names_of_this_api():
    rename = wishes(adapter_strength=0.5).rename({"messages[0]": "messages[2]"})
    assert rename("options.sampling.repetition_penalty") == "options.repeat_penalty"
    assert rename("options.sampling.top_p") == "options.top_p"
    assert rename("options.stop.stop_strings[1]") == "options.stop[1]"
    assert rename("options.constraint.json_schema") == "format"
    assert rename("messages[0].content") == "messages[2].content"
    assert rename("adapters[0].strength") == "adapter_strength"
