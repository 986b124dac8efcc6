"""The operator's remotes, read from a TOML file: a table for each, named as tenants name it.

[garage]
kind = "registry"                        # or "http", "directory", "fsspec"
url = "https://registry.example"
user = "car"
password_file = "/etc/edgelora/garage.password"
tenants = ["office"]                     # absent: all
"""

from __future__ import annotations

import base64
import ssl
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from services.adapter_store.remotes.fsspec_tree import Option
from services.adapter_store.remotes.reference import is_remote_name
from services.adapter_store.remotes.web_address import (
    Place,
    WebAddress,
    parse_place,
    parse_web_address,
)
from services.chassis.settings import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPlace:
    """A registry, or a static server with a directory of packages."""

    kind: Literal["registry", "http"]
    address: WebAddress
    allowed_hosts: frozenset[Place]
    """Where it may redirect to, and where its tokens may come from."""
    allow_plain_http: bool
    ca_file: Path | None
    """Certificates to trust instead of the system's."""
    authorization: str | None = field(repr=False)
    """Value of the Authorization header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPlace:
    """A directory or the mount point of a medium."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FsspecPlace:
    """A place that fsspec reaches."""

    url: str
    options: Mapping[str, Option] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One remote and who may use it."""

    name: str
    tenants: frozenset[str] | None
    """None for all."""
    trusts_encoded: bool
    """Whether encoded forms of its packages may become what all tenants of an adapter get."""
    place: WebPlace | DirectoryPlace | FsspecPlace

    def is_open_to(self, tenant_id: str) -> bool:
        """Whether a tenant may use it."""
        return self.tenants is None or tenant_id in self.tenants


def basic_authorization(user: str, password: str) -> str:
    """The value of the Authorization header (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def load_remotes(file: Path, setting: str) -> dict[str, Remote]:
    """Reads the file a setting names. Raises ConfigError with a line for each mistake."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read the file: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{setting} is not a TOML file: {error}") from error
    errors: list[str] = []
    remotes = {name: _remote(name, value, errors) for name, value in document.items()}
    if errors:
        raise ConfigError("\n".join(f"{setting}: {error}" for error in errors))
    return {name: remote for name, remote in remotes.items() if remote is not None}


def _remote(name: str, value: Any, errors: list[str]) -> Remote | None:
    if not is_remote_name(name):
        errors.append("a remote's name has 1 to 64 letters, digits, '.', '_' and '-'")
        return None
    if not isinstance(value, dict):
        errors.append(f"{name} has to be a table: [{name}]")
        return None
    table = _Table(name, value, errors)
    kind = table.text("kind", required=True)
    place: WebPlace | DirectoryPlace | FsspecPlace | None = None
    if kind in {"registry", "http"}:
        place = _web_place(table, "http" if kind == "http" else "registry")
    elif kind == "directory":
        place = DirectoryPlace(path=Path(table.text("path", required=True) or "/"))
        if not place.path.is_absolute():
            table.wrong("path", "an absolute path")
    elif kind == "fsspec":
        place = _fsspec_place(table)
    elif kind is not None:
        table.wrong("kind", "registry, http, directory or fsspec")
    tenants = table.texts("tenants")
    trusts_encoded = table.flag("trust_encoded")
    table.finish()
    if place is None:
        return None
    return Remote(
        name=name,
        tenants=None if tenants is None else frozenset(tenants),
        trusts_encoded=trusts_encoded,
        place=place,
    )


def _web_place(table: _Table, kind: Literal["registry", "http"]) -> WebPlace | None:
    address = table.parsed("url", parse_web_address, "an http or https address without a user")
    hosts = frozenset(
        place
        for text in table.texts("allowed_hosts") or []
        if (place := table.attempt("allowed_hosts", parse_place, text, "hosts or host:port"))
    )
    allow_plain_http = table.flag("allow_plain_http")
    if address is not None and address.scheme == "http" and not allow_plain_http:
        table.wrong("url", "an https address, or allow_plain_http has to be true")
    if address is not None and "?" in address.target:
        table.wrong("url", "without a query")
    ca_file = table.text("ca_file")
    if ca_file is not None and not _has_certificates(ca_file):
        table.wrong("ca_file", "a file of certificates in PEM form")
    user, password = table.text("user"), table.secret("password_file")
    token = table.secret("token_file")
    if (user is None) != (password is None):
        table.wrong("user", "given together with password_file")
    if token is not None and user is not None:
        table.wrong("token_file", "given without user and password_file")
    authorization = f"Bearer {token}" if token is not None else None
    if user is not None and password is not None:
        authorization = basic_authorization(user, password)
    if address is None:
        return None
    return WebPlace(
        kind=kind,
        address=address,
        allowed_hosts=hosts,
        allow_plain_http=allow_plain_http,
        ca_file=None if ca_file is None else Path(ca_file),
        authorization=authorization,
    )


def _has_certificates(file: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError:  # of which ssl.SSLError is one
        return False
    return True


def _fsspec_place(table: _Table) -> FsspecPlace:
    options: dict[str, Option] = {}
    for name, value in table.inner("options").items():
        if isinstance(value, str | int | float | bool):
            options[name] = value
        else:
            table.wrong(f"options.{name}", "a text, a number or true or false")
    for name in table.inner("secret_options"):
        secret = table.secret(name, within="secret_options")
        if secret is not None:
            options[name] = secret
    return FsspecPlace(url=table.text("url", required=True) or "", options=options)


class _Table:
    """Typed access to one remote's table; mistakes are collected."""

    def __init__(self, name: str, values: dict[str, Any], errors: list[str]) -> None:
        self._name = name
        self._values = values
        self._errors = errors
        self._asked: set[str] = set()

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A text that is not empty."""
        value = self._get(key)
        if value is None and required:
            self._errors.append(f"{self._name}.{key} is required")
        if value is None or (isinstance(value, str) and value):
            return value
        self.wrong(key, "a text")
        return None

    def texts(self, key: str) -> list[str] | None:
        """A list of texts."""
        value = self._get(key)
        if value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            return value
        self.wrong(key, "a list of texts")
        return None

    def flag(self, key: str) -> bool:
        """True or false; false when absent."""
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            self.wrong(key, "true or false")
        return value is True

    def inner(self, key: str) -> dict[str, Any]:
        """A table; empty when absent."""
        value = self._get(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, "a table")
        return value if isinstance(value, dict) else {}

    def secret(self, key: str, within: str | None = None) -> str | None:
        """The stripped content of the file a key names."""
        shown = key if within is None else f"{within}.{key}"
        path = self._get(key) if within is None else self._values[within][key]
        if path is None:
            return None
        try:
            secret = Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError, TypeError, ValueError):
            self.wrong(shown, "the path of a file that can be read")
            return None
        if not secret or not secret.isprintable():
            self.wrong(shown, "the path of a file with one line of text")
        return secret

    def parsed(self, key: str, parse: Callable[[str], T], form: str) -> T | None:
        """A required text that a parser understands."""
        text = self.text(key, required=True)
        return None if text is None else self.attempt(key, parse, text, form)

    def attempt(self, key: str, parse: Callable[[str], T], text: str, form: str) -> T | None:
        """What a parser makes of a text."""
        try:
            return parse(text)
        except ValueError:
            self.wrong(key, form)
            return None

    def wrong(self, key: str, form: str) -> None:
        """Notes a mistake; the value is not shown, for it may be a secret in the wrong place."""
        self._errors.append(f"{self._name}.{key} has to be {form}")

    def finish(self) -> None:
        """Notes keys that nobody asked for."""
        for key in sorted(self._values.keys() - self._asked):
            self._errors.append(f"{self._name}.{key} is not known for this kind of remote")

    def _get(self, key: str) -> Any:
        self._asked.add(key)
        return self._values.get(key)
