"""An OCI image layout in a tree of files, wherever the tree is."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from services.adapter_store.remotes.package import (
    MAX_MANIFEST_BYTES,
    Layer,
    PackageLimits,
    PackageManifest,
    choose_manifest,
    parse_manifest,
)
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.source import ByteStream

INDEX = "index.json"


class FileTree(Protocol):
    """Files by relative paths, made of package names and our own words only."""

    async def read(self, path: str, max_bytes: int) -> bytes:
        """A whole small file. Raises RemoteFailure."""
        ...

    def open(
        self, path: str, size_bytes: int, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens a file of a known size. Raises RemoteFailure."""
        ...

    async def aclose(self) -> None:
        """Closes what is kept open."""
        ...


class LayoutSource:
    """A directory for each package, each an image layout (`index.json`, `blobs/sha256`)."""

    def __init__(self, tree: FileTree, limits: PackageLimits) -> None:
        self._tree = tree
        self._limits = limits

    async def resolve(self, reference: PackageReference) -> PackageManifest:
        """Reads the index, unless the reference has a digest, then the manifest."""
        digest = reference.digest
        if digest is None:
            index = await self._tree.read(f"{reference.name}/{INDEX}", MAX_MANIFEST_BYTES)
            digest = choose_manifest(index, reference)
        manifest = await self._tree.read(_blob(reference, digest), MAX_MANIFEST_BYTES)
        return parse_manifest(manifest, self._limits, expected_digest=digest)

    def open(
        self, reference: PackageReference, layer: Layer, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens a layer's blob."""
        return self._tree.open(_blob(reference, layer.digest), layer.size_bytes, offset, validator)

    async def aclose(self) -> None:
        """Closes what the tree keeps open."""
        await self._tree.aclose()


def _blob(reference: PackageReference, digest: str) -> str:
    return f"{reference.name}/blobs/{digest.replace(':', '/')}"
