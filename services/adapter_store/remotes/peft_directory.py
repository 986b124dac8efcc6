"""A plain PEFT directory as a package, made on the fly: what training leaves on a USB stick."""

from __future__ import annotations

import hashlib
from contextlib import AbstractAsyncContextManager, aclosing

from edgelora.adapter_package import LAYER_MEDIA_TYPES, Blob, package_documents
from edgelora.adapter_upload import FILE_NAMES
from services.adapter_store.remotes.blocking_tree import BlockingTree
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure, absent
from services.adapter_store.remotes.package import (
    FILES,
    Layer,
    PackageLimits,
    PackageManifest,
    parse_manifest,
)
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.source import ByteStream

_NAMES = {file: name for name, file in FILES.items()}
_LFS_POINTER = b"version https://git-lfs"


class PeftDirectorySource:
    """Directories with `adapter_config.json` and `adapter_model.safetensors`, without tags.

    The manifest is the one `edgelora adapters pack` would write, so its digest pins the files.
    """

    def __init__(self, tree: BlockingTree, limits: PackageLimits) -> None:
        self._tree = tree
        self._limits = limits

    async def resolve(self, reference: PackageReference) -> PackageManifest:
        """Hashes the files. Raises RemoteFailure."""
        if reference.tag is not None:
            raise absent()
        blobs: dict[str, Blob] = {}
        for name in LAYER_MEDIA_TYPES:
            try:
                blobs[name] = await self._hash(reference, name)
            except RemoteFailure as failure:
                if failure.kind is not FailureKind.ABSENT or name in FILE_NAMES:
                    raise
        _, manifest = package_documents(blobs)
        return parse_manifest(manifest, self._limits, expected_digest=reference.digest)

    def open(
        self, reference: PackageReference, layer: Layer, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens one of the files."""
        path = f"{reference.name}/{_NAMES[layer.file]}"
        return self._tree.open(path, layer.size_bytes, offset, validator)

    async def aclose(self) -> None:
        """Closes what the tree keeps open."""
        await self._tree.aclose()

    async def _hash(self, reference: PackageReference, name: str) -> Blob:
        limit = self._limits.of(FILES[name])
        hasher = hashlib.sha256()
        size_bytes = 0
        async with (
            self._tree.open(f"{reference.name}/{name}", None, 0, None) as stream,
            aclosing(stream.chunks) as chunks,
        ):
            async for chunk in chunks:
                if size_bytes == 0 and chunk.startswith(_LFS_POINTER):
                    raise RemoteFailure(
                        FailureKind.UNUSABLE,
                        f"{name} is a Git LFS pointer, not the file: run `git lfs pull` there",
                    )
                size_bytes += len(chunk)
                if size_bytes > limit:
                    raise RemoteFailure(FailureKind.UNUSABLE, f"{name} has more than {limit} bytes")
                hasher.update(chunk)
        return Blob(f"sha256:{hasher.hexdigest()}", size_bytes)
