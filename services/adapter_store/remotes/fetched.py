"""What has arrived from a remote: whole, with the right checksums, and not yet believed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Files in a directory private to whoever fetched them.

    `discard` it when done, also after its files were moved away.
    """

    directory: Path
    total_bytes: int
    """Of its files."""
    seconds: float
    """From the request, waiting for a slot included."""

    def discard(self) -> None:
        """Removes what is left of it. Blocks on storage; may be called twice."""
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPackage(Fetched):
    """The files of an adapter, not verified as one yet."""

    config_path: Path
    weights_path: Path
    probe_path: Path | None
    card_path: Path | None
    head_path: Path | None
    encoded_path: Path | None
    """What is said to be its encoded form; None when that was not wanted or not to be had."""
    weights_bytes: int
    weights_sha256: bytes
    """Found while they arrived, equal to the manifest's."""
    manifest_digest: str
    source: str
    """`REMOTE/NAME@sha256:...`: the reference that brings the same bytes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedEncoded(Fetched):
    """The very bytes of an encoded form that were asked for."""

    path: Path
