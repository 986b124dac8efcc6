"""Reads the fields of a JSON object, each once and with its type. Pure.

`null` is the same as an absent field. Every error names the field by its path and what it must
be, and never what it was; every method but `finish` and `has` raises InvalidRequestError.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from edgelora.errors import InvalidRequestError

ValueT = TypeVar("ValueT")


class Fields:
    """The fields of one object."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path
        self._read: set[str] = set()
        self._unserved: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def is_text(self, name: str) -> bool:
        """Whether the field is a string."""
        return isinstance(self._values.get(name), str)

    @property
    def own_path(self) -> str:
        """How errors call this object; empty for the body."""
        return self._path

    def path(self, name: str) -> str:
        """How errors call a field of this object."""
        return f"{self._path}.{name}" if self._path else name

    def text(self, name: str) -> str | None:
        """A string."""
        return self._typed(name, str, "a string")

    def required_text(self, name: str) -> str:
        """A string that must be there."""
        return self._required(name, self.text(name))

    def boolean(self, name: str) -> bool | None:
        """true or false; nothing else stands for them."""
        return self._typed(name, bool, "true or false")

    def number(self, name: str) -> float | None:
        """Any number; a boolean is none."""
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.invalid(name, "must be a number")
        return float(value)

    def integer(self, name: str, low: int, high: int | None = None) -> int | None:
        """A whole number of at least `low` and at most `high`; 5.0 is one."""
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer() and math.fabs(value) < 2**53:
            value = int(value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or value < low or (high is not None and value > high):
            rule = f"at least {low}" if high is None else f"{low} to {high}"
            raise self.invalid(name, f"must be a whole number, {rule}")
        return int(value)

    def child(self, name: str) -> Fields | None:
        """An object."""
        value = self._typed(name, dict, "an object")
        return None if value is None else Fields(value, self.path(name))

    def required_child(self, name: str) -> Fields:
        """An object that must be there."""
        return self._required(name, self.child(name))

    def document(self, name: str) -> dict[str, Any] | None:
        """An object that goes on as it is, such as a JSON schema."""
        return self._typed(name, dict, "an object")

    def children(self, name: str) -> list[Fields] | None:
        """A list of objects."""
        value = self.items(name)
        if value is None:
            return None
        found = []
        for index, item in enumerate(value):
            path = f"{self.path(name)}[{index}]"
            if not isinstance(item, dict):
                raise InvalidRequestError(f"{path} must be an object", field=path)
            found.append(Fields(item, path))
        return found

    def items(self, name: str) -> list[Any] | None:
        """A list of anything."""
        return self._typed(name, list, "a list")

    def texts(self, name: str) -> list[str] | None:
        """A list of strings."""
        value = self.items(name)
        if value is not None and not all(isinstance(item, str) for item in value):
            raise self.invalid(name, "must be a list of strings")
        return value

    def text_or_texts(self, name: str) -> list[str] | None:
        """A string, or a list of strings."""
        if self.is_text(name):
            return [self.required_text(name)]
        if self.has(name) and not isinstance(self._values[name], list):
            raise self.invalid(name, "must be a string or a list of strings")
        return self.texts(name)

    def one_of(self, name: str, allowed: Iterable[str]) -> str | None:
        """A string out of a few."""
        value = self.text(name)
        if value is not None and value not in (choices := tuple(allowed)):
            raise self.invalid(name, f"must be one of {', '.join(choices)}")
        return value

    def anything(self, name: str) -> Any:
        """The value as it is, None where it is absent or null."""
        return self._take(name)

    def ignore(self, *names: str) -> None:
        """These may be there, and change nothing."""
        self._read.update(names)

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Fields of the API that mean something which is not served, and why.

        Empty ones and false may be there.
        """
        self._unserved.update(reasons)
        for name, reason in reasons.items():
            if self._values.get(name) not in (None, False, "", [], {}):
                raise self.invalid(name, f"is not served: {reason}")

    def finish(self) -> None:
        """Refuses fields that nothing has read. Raises InvalidRequestError."""
        if not self._values.keys() <= self._read | self._unserved:
            where = f"{self._path} has" if self._path else "the body has"
            known = ", ".join(sorted(self._read))
            raise InvalidRequestError(
                f"{where} a field that is not known here: known are {known}",
                field=self._path or None,
            )

    def invalid(self, name: str, rule: str) -> InvalidRequestError:
        """The error for a field that breaks a rule."""
        path = self.path(name)
        return InvalidRequestError(f"{path} {rule}", field=path)

    def _take(self, name: str) -> Any:
        self._read.add(name)
        return self._values.get(name)

    def _typed(self, name: str, kind: type[ValueT], words: str) -> ValueT | None:
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise self.invalid(name, f"must be {words}")
        return value

    def _required(self, name: str, value: ValueT | None) -> ValueT:
        if value is None:
            raise self.invalid(name, "is missing")
        return value
