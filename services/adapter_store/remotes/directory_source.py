"""A directory or medium of the operator: image layouts and plain PEFT directories side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.adapter_store.remotes.blocking_tree import BlockingTree
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure
from services.adapter_store.remotes.layout_source import INDEX, LayoutSource
from services.adapter_store.remotes.package import (
    MAX_MANIFEST_BYTES,
    Layer,
    PackageLimits,
    PackageManifest,
)
from services.adapter_store.remotes.peft_directory import PeftDirectorySource
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.source import ByteStream, PackageSource


class DirectorySource:
    """A package is a layout when it has an `index.json`, and a PEFT directory when not."""

    def __init__(self, tree: BlockingTree, limits: PackageLimits) -> None:
        self._tree = tree
        self._layout = LayoutSource(tree, limits)
        self._peft = PeftDirectorySource(tree, limits)

    async def resolve(self, reference: PackageReference) -> PackageManifest:
        """Reads or makes the manifest."""
        return await (await self._source(reference)).resolve(reference)

    @asynccontextmanager
    async def open(
        self, reference: PackageReference, layer: Layer, offset: int, validator: str | None
    ) -> AsyncIterator[ByteStream]:
        """Opens a layer."""
        source = await self._source(reference)
        async with source.open(reference, layer, offset, validator) as stream:
            yield stream

    async def aclose(self) -> None:
        """Closes what the tree keeps open."""
        await self._tree.aclose()

    async def _source(self, reference: PackageReference) -> PackageSource:
        try:
            await self._tree.read(f"{reference.name}/{INDEX}", MAX_MANIFEST_BYTES)
        except RemoteFailure as failure:
            if failure.kind is not FailureKind.ABSENT:
                raise
            return self._peft
        return self._layout
