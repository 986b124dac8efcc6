"""JSON with one meaning: no duplicate keys, no NaN, no byte order mark, bounded depth."""

from __future__ import annotations

import json
from typing import Any

from edgelora.adapter_format.naming import shown
from edgelora.error_tree import AdapterRejectedError


class _DuplicateKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return document


def _refuse_constant(literal: str) -> Any:
    raise ValueError(literal)


def parse_object(data: bytes, *, field: str) -> dict[str, Any]:
    """Parses one JSON object; raises AdapterRejectedError naming `field` for anything else.

    The caller bounds the size of `data`. Numbers beyond the range of a float become infinite and
    are for the caller to refuse.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise AdapterRejectedError(f"{field} is not UTF-8 text", field=field) from None
    if text.startswith("\ufeff"):
        raise AdapterRejectedError(
            f"{field} starts with a byte order mark: save it as plain UTF-8", field=field
        )
    try:
        document = json.loads(
            text, object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant
        )
    except _DuplicateKeyError as error:
        raise AdapterRejectedError(
            f"{field} holds the key {shown(error.key)} twice", field=field
        ) from None
    except RecursionError:
        raise AdapterRejectedError(f"{field} is nested too deeply", field=field) from None
    except ValueError:
        raise AdapterRejectedError(
            f"{field} is not valid JSON (NaN and Infinity are not JSON either)", field=field
        ) from None
    if not isinstance(document, dict):
        raise AdapterRejectedError(f"{field} has to be a JSON object", field=field)
    return document
