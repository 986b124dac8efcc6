"""Reads settings from an environment mapping, and reports every mistake at once."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from pathlib import Path

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DURATION_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 1e8
_LARGEST_PORT = 65535
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


class ConfigError(ValueError):
    """One or more settings are wrong; the message has a line for each."""


class Settings:
    """Typed access to the variables that start with one prefix.

    Readers return the default when a variable is absent or wrong; `finish` raises for everything
    that was wrong, and for variables with the prefix that nobody asked for.
    """

    def __init__(self, environ: Mapping[str, str], prefix: str) -> None:
        self._environ = environ
        self._prefix = prefix
        self._asked: set[str] = set()
        self._errors: list[str] = []

    def text(self, name: str, default: str | None = None) -> str:
        """A non-empty text. Without a default it is required."""
        value = self._raw(name)
        if value:
            return value
        if default is None:
            self._errors.append(f"{self._prefix}{name} is required")
            return ""
        return default

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number within [low, high]."""
        number = self._number(name, float(default), float(low), float(high))
        if not number.is_integer():
            self._errors.append(f"{self._prefix}{name} must be a whole number")
            return default
        return int(number)

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        """A finite number within [low, high]."""
        return self._number(name, default, low, high)

    def boolean(self, name: str, default: bool) -> bool:
        """One of 1/0, true/false, yes/no, on/off."""
        value = self._raw(name).lower()
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        if value:
            self._errors.append(f"{self._prefix}{name} must be true or false")
        return default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of the given words."""
        value = self._raw(name)
        if value in choices:
            return value
        if value:
            self._errors.append(f"{self._prefix}{name} must be one of {', '.join(choices)}")
        return default

    def size_bytes(self, name: str, default: int) -> int:
        """A size such as `512MiB`, in bytes."""
        return int(self._with_unit(name, float(default), dict(_UNITS), "a size such as 512MiB"))

    def duration_s(self, name: str, default: float, *, low: float = 0.0) -> float:
        """A duration such as `250ms` or `30s`, in seconds; at least `low`, at most some years."""
        form = "a duration such as 250ms or 30s"
        seconds = self._with_unit(name, default, _DURATION_UNITS, form)
        if not low <= seconds <= _LONGEST_S:
            self._errors.append(
                f"{self._prefix}{name} must be from {low:g} to {_LONGEST_S:.0f} seconds"
            )
            return default
        return seconds

    def listen_address(self, name: str) -> str | None:
        """A `host:port` to listen on, None when the variable is absent."""
        value = self._raw(name)
        host, _, port = value.rpartition(":")
        if not value:
            return None
        if not host or not port.isascii() or not port.isdigit() or int(port) > _LARGEST_PORT:
            self._errors.append(f"{self._prefix}{name} must be host:port, such as 127.0.0.1:9464")
            return None
        return value

    def path(self, name: str, default: Path | None = None) -> Path:
        """A path. Without a default it is required."""
        return Path(self.text(name, None if default is None else str(default)))

    def secret_file(self, name: str) -> bytes:
        """The stripped text of the file a required variable names; secrets are never values.

        Random bytes are refused: one key in twenty has white space at an end, which would be cut.
        """
        path = self.text(name)
        if not path:
            return b""
        try:
            secret = Path(path).read_bytes().strip()
        except OSError as error:
            self._errors.append(f"{self._prefix}{name}: cannot read the file: {error.strerror}")
            return b""
        if not secret:
            self._errors.append(f"{self._prefix}{name}: the file is empty")
        elif not secret.isascii() or not secret.decode("ascii").isprintable():
            self._errors.append(
                f"{self._prefix}{name}: the file must hold one line of text, such as 64 hex digits"
            )
        return secret

    def optional_secret_file(self, name: str) -> bytes | None:
        """As `secret_file`, or None when the variable is absent."""
        return self.secret_file(name) if self._raw(name) else None

    def finish(self) -> None:
        """Raises ConfigError when anything was wrong or unknown."""
        unknown = sorted(
            name
            for name in self._environ
            if name.startswith(self._prefix) and name.removeprefix(self._prefix) not in self._asked
        )
        errors = self._errors + [
            f"{name} is not a known setting: {self._suggestion(name)}" for name in unknown
        ]
        if errors:
            raise ConfigError("\n".join(errors))

    def _suggestion(self, name: str) -> str:
        known = [self._prefix + asked for asked in self._asked]
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return f"{meant}docs/configuration.md has all of them"

    def _raw(self, name: str) -> str:
        self._asked.add(name)
        return self._environ.get(self._prefix + name, "").strip()

    def _number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._raw(name)
        if not value:
            return default
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            self._errors.append(f"{self._prefix}{name} must be a number from {low:g} to {high:g}")
            return default
        return number

    def _with_unit(self, name: str, default: float, units: dict[str, float], form: str) -> float:
        value = self._raw(name)
        if not value:
            return default
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value)
        if match is None or match[2] not in units:
            self._errors.append(f"{self._prefix}{name} must be {form}")
            return default
        return float(match[1]) * units[match[2]]
