"""Fields are read with their types, and errors name them by their path."""

import pytest

from edgelora.errors import InvalidRequestError
from services.gateway.http.json_fields import Fields


def read_all(fields):
    return [
        fields.text("text"),
        fields.boolean("is"),
        fields.number("number"),
        fields.integer("integer", 1, 10),
        fields.texts("texts"),
        fields.text_or_texts("stop"),
        fields.one_of("kind", ("a", "b")),
        fields.document("document"),
    ]


def test_fields_have_their_types():
    values = {
        "text": "x",
        "is": False,
        "number": 2,
        "integer": 5.0,
        "texts": ["a"],
        "stop": "s",
        "kind": "b",
        "document": {"any": [1]},
    }
    fields = Fields(values)
    assert read_all(fields) == ["x", False, 2.0, 5, ["a"], ["s"], "b", {"any": [1]}]
    fields.finish()


@pytest.mark.parametrize("values", [{}, dict.fromkeys(("text", "is", "stop", "kind", "document"))])
def test_null_is_the_same_as_absent(values):
    fields = Fields(values)
    assert read_all(fields) == [None] * 8
    fields.finish()


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"text": 5}, "text must be a string"),
        ({"is": "true"}, "is must be true or false"),
        ({"is": 1}, "is must be true or false"),
        ({"number": "hot"}, "number must be a number"),
        ({"number": True}, "number must be a number"),
        ({"integer": 1.5}, "integer must be a whole number, 1 to 10"),
        ({"integer": "5"}, "integer must be a whole number, 1 to 10"),
        ({"integer": True}, "integer must be a whole number, 1 to 10"),
        ({"integer": 0}, "integer must be a whole number, 1 to 10"),
        ({"integer": 1e18}, "integer must be a whole number, 1 to 10"),
        ({"texts": "a"}, "texts must be a list"),
        ({"texts": ["a", 1]}, "texts must be a list of strings"),
        ({"stop": 5}, "stop must be a string or a list of strings"),
        ({"stop": [5]}, "stop must be a list of strings"),
        ({"kind": "c"}, "kind must be one of a, b"),
        ({"document": []}, "document must be an object"),
    ],
)
def test_another_type_is_an_error_that_names_the_field(values, rule):
    with pytest.raises(InvalidRequestError) as caught:
        read_all(Fields(values))
    assert (caught.value.message, caught.value.field) == (rule, next(iter(values)))


def test_fields_within_are_named_by_their_path():
    body = Fields({"tools": [{"function": {"name": 5}}]})
    (tool,) = body.children("tools")
    with pytest.raises(InvalidRequestError) as caught:
        tool.required_child("function").required_text("name")
    assert caught.value.field == "tools[0].function.name"
    with pytest.raises(InvalidRequestError) as caught:
        Fields({"tools": [[]]}).children("tools")
    assert caught.value.field == "tools[0]"
    with pytest.raises(InvalidRequestError, match=r"tools\[0\]\.type is missing"):
        tool.required_text("type")


def test_an_unknown_field_is_refused_without_its_name():
    fields = Fields({"text": "x", "canary": 1})
    fields.text("text")
    fields.ignore("other")
    with pytest.raises(InvalidRequestError) as caught:
        fields.finish()
    assert caught.value.message == (
        "the body has a field that is not known here: known are other, text"
    )


def test_a_field_that_is_not_served_may_be_empty_and_says_why_when_it_is_not():
    for empty in (None, False, "", [], {}):
        fields = Fields({"audio": empty})
        fields.refuse({"audio": "answers are text"})
        fields.finish()
    with pytest.raises(InvalidRequestError) as caught:
        Fields({"audio": {"voice": "x"}}).refuse({"audio": "answers are text"})
    assert caught.value.message == "audio is not served: answers are text"
    with pytest.raises(InvalidRequestError, match=r"known are $"):
        unknown = Fields({"audio": None, "b": 1})
        unknown.refuse({"audio": "answers are text"})
        unknown.finish()
