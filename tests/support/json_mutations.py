"""Wrong JSON bodies out of right ones: the same seed and index always make the same bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

_RAW = "\ue000"
"""Before the number of a raw text, which json.dumps would not write."""
_RAW_TEXTS = (
    "1e400", "-1e400", "9" * 5000, "-0", "0x10", "01", "1.", ".5", "NaN", "Infinity", "-Infinity",
    '"\\ud83d"', '"\\udfff\\ud800"', '"\\u0000"', '"\\x41"', "[" * 5000 + "]" * 5000,
    '{"a":' * 5000 + "1" + "}" * 5000, "[" * 2000, "tru", "'text'", '{"a":1,"a":2}', "/**/1",
    "[1,]",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, 1.5, -0.0, 1e9, 1e308, -1e308, 5e-324, 2**31, 2**32, 2**53,
    2**63, 2**64, -(2**63), 10**30, "", " ", "\n", "5", "true", "null", "hot", "auto", "none",
    "json", "stand-in", "stand-in:latest", "stand-in:nobody", ":", "latest", ":latest", "a:b:c",
    "../../etc", "sha256:" + "0" * 64, "user", "system", "tool", "assistant", "developer",
    "\u202e", "\ufeff", "\ud83e\udd17", "e\u0301", "\x7f", "<|im_end|>", "{{7*7}}", "a" * 300,
    "a" * 70_000, [], [None], [[]], [""], ["a"] * 300, [0] * 5000, [{}], {}, {"": None},
    {"type": "object"}, {"$ref": "#"}, {"type": "text", "text": "hi"}, {"pattern": "(a+)+$"},
    {"a": {"a": {"a": []}}},
)  # fmt: skip
_KEYS = (
    "", "\u0000", "model", "messages", "prompt", "stream", "tools", "format", "options", "adapters",
    "response_format", "chat_template", "__class__", "logit_bias", "stop_token_ids", "n", "role",
    "content", "images", "think", "session", "priority", "adapter_strength", "a" * 300,
)  # fmt: skip


def mutated_body(seeds: Sequence[Any], seed: str, index: int) -> bytes:
    """Body number `index`: one of the right ones, changed in one to four places."""
    chance = random.Random(f"{seed} {index}")
    document = json.loads(json.dumps(chance.choice(seeds)))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        document = _changed(document, chance)
    body = _written(document)
    if chance.random() < 0.25:
        body = _scrambled(body, chance)
    return body


def _changed(document: Any, chance: random.Random) -> Any:
    """The document with one value replaced, removed, added, doubled or moved."""
    places = list(_places(document))
    if not places or chance.random() < 0.02:
        return _value(chance)
    parent, key = chance.choice(places)
    match chance.randrange(6):
        case 0 if isinstance(parent, dict):
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[chance.choice(_KEYS)] = _value(chance)
        case 2 if isinstance(parent, list):
            parent.insert(chance.randrange(len(parent) + 1), parent[key])
        case 3:
            other, name = chance.choice(places)
            parent[key] = json.loads(json.dumps(other[name]))
        case _:
            parent[key] = _value(chance)
    return document


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _value(chance: random.Random) -> Any:
    if chance.random() < 0.3:
        return f"{_RAW}{chance.randrange(len(_RAW_TEXTS))}"
    return json.loads(json.dumps(chance.choice(_VALUES)))


def _written(document: Any) -> bytes:
    text = json.dumps(document, ensure_ascii=False)
    for number, raw in enumerate(_RAW_TEXTS):
        text = text.replace(f'"{_RAW}{number}"', raw)
    return text.encode("utf-8", "surrogatepass")


def _scrambled(body: bytes, chance: random.Random) -> bytes:
    """The bytes cut, flipped, spliced or encoded otherwise."""
    at = chance.randrange(len(body) + 1)
    match chance.randrange(8):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
        case 2:
            return body[:at] + chance.randbytes(chance.randrange(1, 9)) + body[at:]
        case 3:
            return body[at:] + body[:at]
        case 4:
            return b"\xef\xbb\xbf" + body
        case 5:
            return body.decode("utf-8", "replace").encode(chance.choice(("utf-16", "utf-32")))
        case 6:
            return body + chance.choice((b"\x00", b"}", b" {}", b"\xff\xfe", b"\n\n"))
        case _:
            return b""
