"""Real remotes with one package, of which blobs can go or go bad."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.adapter_packages import web_remote
from tests.support.docker_registry import DockerRegistry
from tests.support.nginx_server import NginxServer

KINDS = ("directory", "http", "registry")
NAME = "garage/mail"
"""What a tenant calls the package."""


@dataclass(frozen=True)
class PlacedPackage:
    """A remote called `garage` that holds a package called `mail`."""

    kind: str
    remotes: str
    """The text of the remotes file."""
    _blobs: Path
    _links: Path | None

    def spoil(self, digest: str) -> None:
        """Flips a bit of a blob."""
        file = self._file(digest)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def drop(self, digest: str) -> None:
        """Lets a blob go; the manifest goes on naming it."""
        if self._links is None:
            self._file(digest).unlink()
        else:
            shutil.rmtree(self._links / digest.removeprefix("sha256:"))

    def _file(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self._blobs / name if self._links is None else self._blobs / name[:2] / name / "data"


@contextmanager
def placed_package(
    kind: str, directory: Path, layout: Path, *, is_trusted: bool = True
) -> Iterator[PlacedPackage]:
    """Puts the package of an image layout into a remote of one of KINDS.

    `is_trusted`: with its encoded forms.
    """
    trust = f"trust_encoded = {str(is_trusted).lower()}"
    if kind == "registry":
        server = DockerRegistry(directory / "registry")
        storage = directory / "registry" / "storage" / "docker" / "registry" / "v2"
        try:
            server.push(layout, "mail", "latest")
            yield PlacedPackage(
                kind,
                web_remote("registry", server.port, trust),
                storage / "blobs" / "sha256",
                storage / "repositories" / "mail" / "_layers" / "sha256",
            )
        finally:
            server.stop()
        return
    site = directory / "site"
    shutil.copytree(layout, site / "mail")
    blobs = site / "mail" / "blobs" / "sha256"
    if kind == "directory":
        remotes = f'[garage]\nkind = "directory"\npath = "{site}"\n{trust}\n'
        yield PlacedPackage(kind, remotes, blobs, None)
        return
    nginx = NginxServer(directory / "nginx", site)
    try:
        yield PlacedPackage(kind, web_remote("http", nginx.port, trust), blobs, None)
    finally:
        nginx.stop()
