"""Reads a file of known size over HTTP, from the middle when the server can."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from services.adapter_store.remotes.failures import faulty, wrong_size
from services.adapter_store.remotes.remote_http import HttpReply, RemoteHttp
from services.adapter_store.remotes.source import ByteStream

_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15}|\*)")


def range_headers(offset: int, validator: str | None) -> dict[str, str]:
    """Asks for the rest of a file, if it is still the version the validator names (RFC 9110)."""
    if offset == 0:
        return {}
    headers = {"range": f"bytes={offset}-"}
    return headers if validator is None else {**headers, "if-range": validator}


@asynccontextmanager
async def blob_stream(
    http: RemoteHttp,
    exchange: AbstractAsyncContextManager[HttpReply],
    *,
    size_bytes: int,
    offset: int,
) -> AsyncIterator[ByteStream]:
    """Turns the answer to a GET with `range_headers` into bytes and where they start.

    Raises RemoteFailure: CORRUPT when the file announces another size.
    """
    async with exchange as reply:
        if reply.status == 200:
            start, total = 0, reply.headers.get("content-length", "")
        elif reply.status == 206:
            match = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", ""))
            if match is None or int(match[1]) != offset:
                raise faulty("it sends another part of a file than it was asked for")
            start, total = offset, match[2]
        elif reply.status == 416:
            raise wrong_size()
        else:
            raise http.failure(reply)
        if total.isdigit() and int(total) != size_bytes:
            raise wrong_size()
        tag = reply.headers.get("etag")
        # A weak validator does not promise equal bytes.
        yield ByteStream(start, None if tag is None or tag.startswith("W/") else tag, reply.chunks)
