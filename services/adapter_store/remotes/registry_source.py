"""A container registry, by its HTTP API v2 (OCI distribution specification 1.1, pull)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from edgelora.adapter_package import MANIFEST_MEDIA_TYPE
from services.adapter_store.remotes.failures import absent
from services.adapter_store.remotes.http_blob import blob_stream, range_headers
from services.adapter_store.remotes.package import (
    DEFAULT_TAG,
    MAX_MANIFEST_BYTES,
    Layer,
    PackageLimits,
    PackageManifest,
    parse_manifest,
)
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.registry_access import RegistryAccess
from services.adapter_store.remotes.remote_http import HttpReply, RemoteHttp
from services.adapter_store.remotes.source import ByteStream


class RegistrySource:
    """Packages of one registry. A path in its address is a prefix of all repositories."""

    def __init__(
        self,
        http: RemoteHttp,
        *,
        authorization: str | None,
        limits: PackageLimits,
        clock_s: Callable[[], float],
    ) -> None:
        self._http = http
        self._access = RegistryAccess(http, authorization, clock_s)
        self._limits = limits
        self._prefix = http.home.target.strip("/")

    async def resolve(self, reference: PackageReference) -> PackageManifest:
        """Reads the manifest of a tag or digest."""
        version = reference.digest or reference.tag or DEFAULT_TAG
        headers = {"accept": MANIFEST_MEDIA_TYPE}
        async with self._get(reference, f"manifests/{version}", headers) as reply:
            if reply.status == 400:
                # A name or tag that this registry's own rules exclude.
                raise absent()
            if reply.status != 200:
                raise self._http.failure(reply)
            body = await reply.read(MAX_MANIFEST_BYTES)
        return parse_manifest(
            body,
            self._limits,
            expected_digest=reference.digest or reply.headers.get("docker-content-digest"),
        )

    def open(
        self, reference: PackageReference, layer: Layer, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens a layer's blob."""
        return blob_stream(
            self._http,
            self._get(reference, f"blobs/{layer.digest}", range_headers(offset, validator)),
            size_bytes=layer.size_bytes,
            offset=offset,
        )

    async def aclose(self) -> None:
        """Closes idle connections."""
        await self._http.aclose()

    @asynccontextmanager
    async def _get(
        self, reference: PackageReference, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[HttpReply]:
        repository = "/".join(filter(None, (self._prefix, reference.name)))
        home = self._http.home
        address = type(home)(home.scheme, home.place, f"/v2/{repository}/{path}")
        known = self._access.known(repository)
        async with self._http.get(address, headers, known) as reply:
            if reply.status != 401:
                yield reply
                return
            challenge = reply.headers.get("www-authenticate", "")
        self._access.forget(repository)
        answer = await self._access.answer(repository, challenge)
        async with self._http.get(address, headers, answer) as reply:
            if reply.status == 401:
                self._access.forget(repository)
            yield reply
