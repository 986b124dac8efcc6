"""The JSON schemas a request may bound its output by: read once, strictly, with one meaning.

Pure. What is not supported is refused by name and never ignored (JSON Schema 2020-12 allows to);
annotations, which bound nothing, are left out of the result. Every error is an InvalidRequestError
that names the field; of what the caller wrote it repeats at most the name of a known keyword.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from edgelora.errors import InvalidRequestError

MAX_SCHEMA_CHARS = 65_536
MAX_DEPTH = 48
"""JSON objects and arrays inside each other."""
MAX_VALUES = 20_000
"""Values of the whole document, keys not counted."""
MAX_ENUM_VALUES = 4096
MAX_PROPERTIES = 512
MAX_COUNT = 100_000
"""Of minLength, maxLength, minItems, maxItems, minProperties and maxProperties."""
MAX_NUMBER = 10**15
MAX_PATTERN_CHARS = 1024
MAX_REPEATS = 1000
"""Of one repetition in a pattern."""

Schema = dict[str, Any]
"""An object schema, or what stands in one."""

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
_NUMBER_FORMATS = frozenset(("int32", "int64", "float", "double"))
"""Of OpenAPI; they say how a number is stored and bound nothing."""
_ANNOTATIONS = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
    ]
)
_UNSUPPORTED = frozenset(
    [
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "uniqueItems",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedItems",
        "unevaluatedProperties",
        "additionalItems",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "discriminator",
        "$id",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
        "$vocabulary",
        "x-guidance",
    ]
)
_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
# Possessive: digits without an end must not be tried at each of their lengths.
_REPEATS = re.compile(r"\{(\d*+),?(\d*+)\}")


def read_json(text: str, field: str, *, max_chars: int = MAX_SCHEMA_CHARS) -> Any:
    """Parses JSON that has one meaning for every reader, and is small and flat enough to be read.

    No key twice, no NaN, no number beyond a double, no lone surrogate, no NUL.
    Raises InvalidRequestError.
    """
    if len(text) > max_chars:
        raise _invalid(field, f"may have at most {max_chars} characters")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise _invalid(field, "has an object that names a key twice")
        return dict(pairs)

    def refuse(_: str) -> NoReturn:
        raise _invalid(field, "holds NaN or Infinity, which are no JSON")

    try:
        document = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise _invalid(field, f"may be nested {MAX_DEPTH} deep at most") from None
    except ValueError:
        raise _invalid(field, "must be valid JSON") from None
    _check_values(document, field)
    return document


def read_schema(text: str, field: str, *, are_formats_notes: bool = False) -> Schema:
    """Parses and checks a schema; returns it without its annotations.

    `nullable`, of OpenAPI 3.0, becomes a choice. `are_formats_notes`: a format that is not
    supported is an annotation, as the standard allows. Raises InvalidRequestError.
    """
    document = read_json(text, field)
    if not isinstance(document, dict):
        raise _invalid(field, "must be a JSON object")
    reader = _SchemaReader(document, field, are_formats_notes)
    schema = reader.read(document)
    reader.check_references()
    return schema


def check_pattern(pattern: str, field: str, *, max_chars: int = MAX_PATTERN_CHARS) -> None:
    """Checks the size of a regular expression; what it means is not looked at."""
    if len(pattern) > max_chars:
        raise _invalid(field, f"may have at most {max_chars} characters")
    if "\0" in pattern:
        raise _invalid(field, "must not hold the NUL character")
    for match in _REPEATS.finditer(pattern):
        for digits in match.groups():
            if len(digits) > 6 or int(digits or 0) > MAX_REPEATS:
                raise _invalid(field, f"may repeat a part at most {MAX_REPEATS} times")


class _SchemaReader:
    """Goes through one document."""

    def __init__(self, document: Schema, field: str, are_formats_notes: bool) -> None:
        self._document = document
        self._field = field
        self._are_formats_notes = are_formats_notes
        self._num_properties = 0
        self._num_enum_values = 0
        self._read_ids: set[int] = set()
        self._referred_ids: set[int] = set()

    def check_references(self) -> None:
        """Checks that references lead to what was read as a schema, and not to a value of one."""
        if not self._referred_ids <= self._read_ids:
            raise self._invalid("has a $ref to what is no schema")

    def read(self, value: Schema) -> Schema:
        """Returns a schema without its annotations."""
        self._read_ids.add(id(value))
        kept: Schema = {}
        for keyword, body in value.items():
            read = _KEYWORDS.get(keyword)
            if read is not None:
                kept[keyword] = read(self, keyword, body)
            elif keyword not in _ANNOTATIONS and (keyword != "nullable" or type(body) is not bool):
                name = keyword if keyword in _UNSUPPORTED else "an unknown keyword"
                raise self._invalid(f"uses {name}, which is not supported: leave it out")
        if "format" in kept and kept["format"] not in _FORMATS:
            del kept["format"]
        if value.get("nullable"):
            return {"anyOf": [kept, {"type": "null"}]}
        return kept

    def _schema(self, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            raise self._invalid("has a schema that is no JSON object")
        return self.read(value)

    def _schemas(self, keyword: str, body: Any) -> list[Any]:
        if not isinstance(body, list) or not body:
            raise self._invalid(f"has {keyword} that is no list of schemas")
        return [self._schema(each) for each in body]

    def _one_schema(self, keyword: str, body: Any) -> Any:
        if isinstance(body, list):
            raise self._invalid(f"has a list for {keyword}: use prefixItems")
        return self._schema(body)

    def _named(self, keyword: str, body: Any) -> Schema:
        if not isinstance(body, dict):
            raise self._invalid(f"has {keyword} that is no JSON object")
        self._num_properties += len(body)
        if self._num_properties > MAX_PROPERTIES:
            raise self._invalid(f"may name at most {MAX_PROPERTIES} properties")
        if keyword == "patternProperties":
            for pattern in body:
                self._pattern(keyword, pattern)
        return {name: self._schema(each) for name, each in body.items()}

    def _type(self, keyword: str, body: Any) -> Any:
        names = body if isinstance(body, list) else [body]
        if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
            raise self._invalid(f"has a type that is none of {', '.join(sorted(_TYPES))}")
        return body

    def _enum(self, keyword: str, body: Any) -> Any:
        if not isinstance(body, list) or not body:
            raise self._invalid("has an enum that is no list of values")
        self._num_enum_values += len(body)
        if self._num_enum_values > MAX_ENUM_VALUES:
            raise self._invalid(f"may have at most {MAX_ENUM_VALUES} enum values")
        return body

    def _const(self, keyword: str, body: Any) -> Any:
        return body

    def _required(self, keyword: str, body: Any) -> Any:
        if not isinstance(body, list) or not all(isinstance(name, str) for name in body):
            raise self._invalid("has required that is no list of names")
        return body

    def _count(self, keyword: str, body: Any) -> Any:
        if type(body) is not int or not 0 <= body <= MAX_COUNT:
            raise self._invalid(f"has {keyword} that is no whole number, 0 to {MAX_COUNT}")
        return body

    def _number(self, keyword: str, body: Any) -> Any:
        if type(body) not in (int, float) or abs(body) > MAX_NUMBER:
            raise self._invalid(f"has {keyword} that is no number, at most {MAX_NUMBER:g}")
        if keyword == "multipleOf" and body <= 0:
            raise self._invalid("has multipleOf that is not above 0")
        return body

    def _pattern(self, keyword: str, body: Any) -> Any:
        if not isinstance(body, str):
            raise self._invalid(f"has {keyword} that is no string")
        check_pattern(body, self._field)
        return body

    def _format(self, keyword: str, body: Any) -> Any:
        is_known = isinstance(body, str) and body in _FORMATS | _NUMBER_FORMATS
        if not is_known and not (self._are_formats_notes and isinstance(body, str)):
            raise self._invalid(f"has a format that is none of {', '.join(sorted(_FORMATS))}")
        return body

    def _reference(self, keyword: str, body: Any) -> Any:
        if not isinstance(body, str) or not re.match(r"#(/|$)", body):
            raise self._invalid("has a $ref that does not begin with #: define it in $defs")
        target: Any = self._document
        for part in body.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            elif isinstance(target, dict) and key in target:
                target = target[key]
            else:
                raise self._invalid("has a $ref to what it does not define")
        if not isinstance(target, dict | bool):
            raise self._invalid("has a $ref to what is no schema")
        if isinstance(target, dict):
            self._referred_ids.add(id(target))
        return body

    def _invalid(self, rule: str) -> InvalidRequestError:
        return _invalid(self._field, rule)


_KEYWORDS: Mapping[str, Callable[[_SchemaReader, str, Any], Any]] = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _SchemaReader._schemas),
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions"), _SchemaReader._named
    ),
    **dict.fromkeys(("items", "additionalProperties"), _SchemaReader._one_schema),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _SchemaReader._count,
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        _SchemaReader._number,
    ),
    "type": _SchemaReader._type,
    "enum": _SchemaReader._enum,
    "const": _SchemaReader._const,
    "required": _SchemaReader._required,
    "pattern": _SchemaReader._pattern,
    "format": _SchemaReader._format,
    "$ref": _SchemaReader._reference,
}


def _check_values(document: Any, field: str) -> None:
    """Checks depth, number and contents of all values, without recursion."""
    pending = [(document, 1)]
    num_values = 0
    while pending:
        value, depth = pending.pop()
        num_values += 1
        if num_values > MAX_VALUES:
            raise _invalid(field, f"may hold at most {MAX_VALUES} values")
        if isinstance(value, str):
            _check_string(value, field)
        elif isinstance(value, float) and not math.isfinite(value):
            raise _invalid(field, "holds a number that is too large")
        elif isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise _invalid(field, f"may be nested {MAX_DEPTH} deep at most")
            if isinstance(value, dict):
                for key in value:
                    _check_string(key, field)
                value = list(value.values())
            pending += [(each, depth + 1) for each in value]


def _check_string(text: str, field: str) -> None:
    if "\0" in text:
        raise _invalid(field, "must not hold the NUL character")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _invalid(field, "holds half of a surrogate pair, which is no character")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
