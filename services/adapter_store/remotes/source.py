"""What a remote has to be able to do, whatever it is made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from services.adapter_store.remotes.package import Layer, PackageManifest
from services.adapter_store.remotes.reference import PackageReference


@dataclass(frozen=True, slots=True)
class ByteStream:
    """Bytes of a file on their way."""

    offset: int
    """Where in the file they start: the offset asked for, or 0."""
    validator: str | None
    """Names this version of the file, so that a later try can ask for the rest of the same."""
    chunks: AsyncGenerator[bytes]
    """Raises RemoteFailure where the stream breaks."""


class PackageSource(Protocol):
    """One remote. Everything it does ends with what was asked for or with RemoteFailure."""

    async def resolve(self, reference: PackageReference) -> PackageManifest:
        """Reads the manifest a reference means now."""
        ...

    def open(
        self, reference: PackageReference, layer: Layer, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens a layer of a resolved package, from an offset when the remote can."""
        ...

    async def aclose(self) -> None:
        """Closes what is kept open."""
        ...
