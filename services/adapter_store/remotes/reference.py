"""What a tenant types to name a package. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgelora.adapter_package import is_tag
from edgelora.errors import InvalidRequestError

MAX_NAME_CHARS = 255

_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# No part can be `.` or `..`: each starts and ends with a letter or digit.
_PART = r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageReference:
    """A package of a remote, by tag, by manifest digest, or the remote's only or latest one."""

    remote: str
    name: str
    """Parts of letters, digits and inner `.`, `_`, `-`, separated by `/`; safe below a root."""
    tag: str | None = None
    digest: str | None = None
    """`sha256:` and 64 hex digits of the manifest."""

    def __str__(self) -> str:
        if self.digest is not None:
            return f"{self.remote}/{self.name}@{self.digest}"
        return f"{self.remote}/{self.name}" + (f":{self.tag}" if self.tag is not None else "")

    def pinned(self, digest: str) -> PackageReference:
        """The same package, by the digest of its manifest: it can never mean anything else."""
        return PackageReference(remote=self.remote, name=self.name, digest=digest)


def is_remote_name(text: str) -> bool:
    """Whether a text may name a remote. Safe in a file name."""
    return _REMOTE.fullmatch(text) is not None


def parse_reference(text: str) -> PackageReference:
    """Parses `REMOTE/NAME`, `REMOTE/NAME:TAG` or `REMOTE/NAME@sha256:...`.

    Raises InvalidRequestError for anything else; an address is never a reference.
    """
    remote, slash, rest = text.partition("/")
    name, at, digest = rest.partition("@")
    colon, tag = "", ""
    if not at:
        name, colon, tag = rest.partition(":")
    well_formed = (
        slash
        and is_remote_name(remote)
        and len(name) <= MAX_NAME_CHARS
        and _NAME.fullmatch(name)
        and (not at or _DIGEST.fullmatch(digest))
        and (not colon or is_tag(tag))
    )
    if not well_formed:
        raise InvalidRequestError(
            "a package is REMOTE/NAME, REMOTE/NAME:TAG or REMOTE/NAME@sha256:DIGEST, with a remote "
            "the operator set up; an address is not accepted",
            field="package",
        )
    return PackageReference(
        remote=remote, name=name, tag=tag if colon else None, digest=digest if at else None
    )
