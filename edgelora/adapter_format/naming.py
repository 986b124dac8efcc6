"""Names inside an adapter: module patterns, and how a foreign name may appear in a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
MAX_NAME_LENGTH = 256

V = TypeVar("V")


def is_plain_name(text: str) -> bool:
    """Whether a module name or dotted path holds letters, digits and underscores only."""
    return len(text) <= MAX_NAME_LENGTH and _PLAIN_NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """A foreign name for a message: itself when harmless, else a fixed description."""
    if len(text) <= 120 and _PLAIN_NAME.fullmatch(text):
        return text
    return f"(a name of {len(text)} characters outside [A-Za-z0-9_.])"


def suffixes(path: str) -> list[str]:
    """All trailing parts of a dotted path, longest first: a.b.c, b.c, c."""
    parts = path.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def matches_any(names: frozenset[str], path: str) -> bool:
    """PEFT's rule for a list of names: the path equals one, or ends with a dot and one."""
    return any(suffix in names for suffix in suffixes(path))


def pattern_value(patterns: Mapping[str, V], path: str, default: V) -> V:
    """PEFT's rule for rank_pattern and alpha_pattern, for keys that are plain names.

    The first key in file order wins which equals the path or a dotted tail of it; a key with a
    leading `^` has to equal the whole path. Costs the number of parts of the path, not of keys,
    unless several keys match.
    """
    found = [key for key in (*suffixes(path), "^" + path) if key in patterns]
    if not found:
        return default
    if len(found) == 1:
        return patterns[found[0]]
    wanted = set(found)
    return patterns[next(key for key in patterns if key in wanted)]
