"""What a schema may hold: read strictly, with one meaning, refused by name."""

import json
import re

import pytest

from edgelora.errors import InvalidRequestError
from services.chassis import json_schema
from services.chassis.json_schema import check_pattern, read_json, read_schema


def refused(text, match):
    with pytest.raises(InvalidRequestError, match=match) as caught:
        read_schema(text, "schema")
    assert caught.value.field == "schema"
    assert caught.value.message.startswith("schema ")


def nested(depth):
    return '{"items":' * depth + "{}" + "}" * depth


def test_a_schema_comes_back_without_annotations():
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A person",
        "description": "Somebody.",
        "type": "object",
        "properties": {
            # A property may be called like an annotation, or like what is not supported.
            "title": {"type": "string", "examples": ["Dr"], "minLength": 1},
            "not": {"type": "integer", "format": "int32", "minimum": 0},
            "born": {"type": "string", "format": "date"},
            "tree": {"$ref": "#/$defs/tree"},
            "kind": {"enum": ["a", 1, None]},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }
    assert read_schema(json.dumps(document), "schema") == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "not": {"type": "integer", "minimum": 0},
            "born": {"type": "string", "format": "date"},
            "tree": {"$ref": "#/$defs/tree"},
            "kind": {"enum": ["a", 1, None]},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }


def test_nullable_becomes_a_choice():
    document = {"properties": {"a": {"type": "string", "nullable": True}}, "nullable": False}
    assert read_schema(json.dumps(document), "schema") == {
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    }


@pytest.mark.parametrize("keyword", sorted(json_schema._UNSUPPORTED))
def test_what_is_not_supported_is_refused_by_name(keyword):
    refused(
        json.dumps({"type": "object", "properties": {"a": {keyword: {}}}}),
        rf"uses {re.escape(keyword)},",
    )


def test_an_unknown_keyword_is_refused_and_not_repeated():
    with pytest.raises(InvalidRequestError, match="an unknown keyword") as caught:
        read_schema('{"type": "string", "my-own-word": 1}', "schema")
    assert "my-own-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "valid JSON"),
        ("{", "valid JSON"),
        ('{"type": "string"} x', "valid JSON"),
        ("[1]", "JSON object"),
        ("true", "JSON object"),
        ('{"type": "string", "type": "number"}', "twice"),
        ('{"minimum": NaN}', "NaN"),
        ('{"minimum": 1e400}', "too large"),
        ('{"minimum": 1e300}', "minimum"),
        ('{"const": ' + "9" * 100_000 + "}", "65536 characters"),
        ('{"const": ' + "9" * 5_000 + "}", "valid JSON"),
        ('{"const": "\\u0000"}', "NUL"),
        ('{"properties": {"a\\u0000": {}}}', "NUL"),
        ('{"const": "\\ud83d"}', "surrogate"),
        (nested(49), "48 deep"),
        ("[" * 60_000, "48 deep"),
        ('{"enum": [' + ",".join("1" * 30_000) + "]}", "20000 values"),
        (json.dumps({"enum": list(range(5000))}), "4096 enum"),
        ('{"enum": []}', "enum"),
        (json.dumps({"properties": {str(n): {} for n in range(600)}}), "512 properties"),
        ('{"properties": []}', "properties"),
        ('{"properties": {"a": 1}}', "no JSON object"),
        ('{"type": "text"}', "none of array, boolean"),
        ('{"type": []}', "none of"),
        ('{"type": {}}', "none of"),
        ('{"format": "colour"}', "format"),
        ('{"minLength": 1000000000}', "minLength"),
        ('{"maxItems": -1}', "maxItems"),
        ('{"minItems": true}', "minItems"),
        ('{"multipleOf": 0}', "multipleOf"),
        ('{"maximum": "9"}', "maximum"),
        ('{"required": "a"}', "required"),
        ('{"anyOf": []}', "anyOf"),
        ('{"items": [{}]}', "prefixItems"),
        ('{"pattern": 5}', "pattern"),
        ('{"pattern": "\\u0000"}', "NUL"),
        ('{"pattern": "a{99999999}"}', "at most 1000 times"),
        ('{"pattern": "a{0,1001}"}', "at most 1000 times"),
        ('{"patternProperties": {"a{1001}": {}}}', "at most 1000 times"),
        (json.dumps({"pattern": "a" * 1025}), "1024 characters"),
        ('{"$ref": "https://example.com/schema"}', "begin with #"),
        ('{"$ref": "#elsewhere"}', "begin with #"),
        ('{"$ref": "#/$defs/a"}', "does not define"),
        ('{"$ref": "#/required", "required": ["a"]}', "no schema"),
    ],
)
def test_what_is_refused_X06_T18_T30(text, match):
    refused(text, match)


def test_references_go_through_lists_and_escapes():
    document = {"anyOf": [{"type": "string"}, {"$ref": "#/anyOf/0"}, {"$ref": "#/$defs/a~1b%20c"}]}
    document["$defs"] = {"a/b c": {"type": "null"}}
    assert read_schema(json.dumps(document), "schema") == document


def test_a_format_nobody_knows_is_a_note_where_the_caller_says_so():
    text = '{"properties": {"a": {"type": "string", "format": "colour"}}}'
    read = read_schema(text, "schema", are_formats_notes=True)
    assert read == {"properties": {"a": {"type": "string"}}}


def test_the_largest_that_is_read():
    read_schema(nested(47), "schema")
    read_json('{"enum": [' + ",".join("1" * 4096) + "]}", "schema")
    check_pattern("(a{1000}){1,1000}", "pattern")


def test_digits_of_a_repetition_without_an_end_are_gone_through_once():
    # Tried at each of their lengths, as many took minutes.
    check_pattern("{" + "1" * 200_000, "schema", max_chars=300_000)


@pytest.mark.parametrize(
    "document",
    [
        {"const": {"not": {}}, "anyOf": [{"$ref": "#/const"}]},
        {"$defs": {"a": {"enum": [{"uniqueItems": True}]}}, "$ref": "#/$defs/a/enum/0"},
        {"examples": [{"minLength": 10**9}], "items": {"$ref": "#/examples/0"}},
        {"properties": {"not": {"type": "integer"}}, "items": {"$ref": "#/properties"}},
    ],
)
def test_a_reference_to_what_was_not_read_as_a_schema_is_refused(document):
    refused(json.dumps(document), "no schema")
