"""Files below an address of a static HTTP server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from services.adapter_store.remotes.http_blob import blob_stream, range_headers
from services.adapter_store.remotes.remote_http import RemoteHttp
from services.adapter_store.remotes.source import ByteStream


class HttpTree:
    """A FileTree over HTTP GET, with Range where the server has it."""

    def __init__(self, http: RemoteHttp, authorization: str | None) -> None:
        self._http = http
        self._authorization = authorization

    async def read(self, path: str, max_bytes: int) -> bytes:
        """A whole small file. Raises RemoteFailure."""
        async with self._http.get(self._http.home.below(path), {}, self._authorization) as reply:
            if reply.status != 200:
                raise self._http.failure(reply)
            return await reply.read(max_bytes)

    def open(
        self, path: str, size_bytes: int, offset: int, validator: str | None
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Opens a file of a known size. Raises RemoteFailure."""
        exchange = self._http.get(
            self._http.home.below(path), range_headers(offset, validator), self._authorization
        )
        return blob_stream(self._http, exchange, size_bytes=size_bytes, offset=offset)

    async def aclose(self) -> None:
        """Closes idle connections."""
        await self._http.aclose()
