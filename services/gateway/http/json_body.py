"""One reading of a JSON body: what two parsers could read in two ways is refused. Pure.

RFC 8259 leaves open what duplicate keys, huge numbers and lone surrogates mean; here they are
errors, as are NaN and Infinity, which it does not have.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from edgelora.errors import InvalidRequestError

MAX_DEPTH = 64
MAX_BRACKETS = 50_000
"""Those in strings included: an empty list takes thirty times the memory of its two characters."""
_MAX_INT_DIGITS = 19
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(body: bytes) -> dict[str, Any]:
    """Returns the object a body holds. Raises InvalidRequestError, which repeats nothing of it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise _invalid("must be UTF-8") from None
    if text.startswith("\ufeff"):
        raise _invalid("must not start with a byte order mark")
    if text.count("{") + text.count("[") > MAX_BRACKETS:
        raise _invalid(f"has more than {MAX_BRACKETS} opening brackets")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except json.JSONDecodeError as error:
        raise _invalid(f"is not valid JSON at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(value, dict):
        raise _invalid("must be a JSON object")
    _check_depth(value)
    if _SURROGATE.search(text):
        _check_characters(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _invalid("has an object with the same key twice")
    return found


def _constant(_name: str) -> NoReturn:
    raise _invalid("has a number that is NaN or infinite")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _invalid("has a number that is too large")
    return value


def _int(text: str) -> int:
    # Before int(): the time that takes grows with the square of the digits.
    if len(text) > _MAX_INT_DIGITS:
        raise _invalid("has a number that is too large")
    return int(text)


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth == MAX_DEPTH:
            raise _too_deep()
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        depth += 1


def _check_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _invalid("has half of a surrogate pair") from None


def _too_deep() -> InvalidRequestError:
    return _invalid(f"is nested deeper than {MAX_DEPTH} levels")


def _invalid(rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"the body {rule}")
