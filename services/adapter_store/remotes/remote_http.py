"""HTTP for hostile answers: bounded redirects and headers, plain bodies, checked addresses."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpcore2

from services.adapter_store.remotes.failures import (
    FailureKind,
    RemoteFailure,
    absent,
    faulty,
    unreachable,
)
from services.adapter_store.remotes.guarded_network import GuardedNetwork
from services.adapter_store.remotes.name_lookup import Resolve
from services.adapter_store.remotes.web_address import Place, WebAddress

MAX_REDIRECTS = 3
_REDIRECTS = {301, 302, 303, 307, 308}
_MAX_IDLE_CONNECTIONS = 8
_IDLE_S = 15.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer whose body has not been read."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    chunks: AsyncGenerator[bytes]
    """The body as sent, never decompressed."""

    async def read(self, max_bytes: int) -> bytes:
        """The whole body of a small answer. Raises RemoteFailure when it is larger."""
        body = bytearray()
        async with aclosing(self.chunks) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > max_bytes:
                    raise faulty("an answer is too large")
        return bytes(body)


class RemoteHttp:
    """GET requests to one remote and to the places its operator lets it refer to.

    Making one reads certificates and touches no network.
    """

    def __init__(
        self,
        home: WebAddress,
        *,
        allowed: frozenset[Place],
        allow_plain_http: bool,
        ca_file: Path | None,
        answer_timeout_s: float,
        resolve: Resolve,
        unix_clock_s: Callable[[], float],
    ) -> None:
        self.home = home
        self._allowed = allowed | {home.place}
        self._schemes = ("https", "http") if allow_plain_http else ("https",)
        self._answer_timeout_s = answer_timeout_s
        self._unix_clock_s = unix_clock_s
        trusted = {place for place in allowed if place.is_literal} | {home.place}
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(cafile=ca_file),
            # The tenants' download slots are the bound: one tenant must not use up another's.
            max_connections=None,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_S,
            network_backend=GuardedNetwork(trusted, resolve),
        )

    @asynccontextmanager
    async def get(
        self, address: WebAddress, headers: Mapping[str, str], authorization: str | None = None
    ) -> AsyncIterator[HttpReply]:
        """Follows redirects to allowed places; credentials stay with the address asked for.

        Raises RemoteFailure when no answer comes, or one that is not plain HTTP.
        """
        here = address
        for _ in range(MAX_REDIRECTS + 1):
            self._check(here)
            sent = {"host": here.host_header, "accept-encoding": "identity", **headers}
            if authorization is not None and (here.scheme, here.place) == (
                address.scheme,
                address.place,
            ):
                sent["authorization"] = authorization
            async with self._exchange(here, sent) as reply:
                if reply.status not in _REDIRECTS:
                    if reply.headers.get("content-encoding", "identity") != "identity":
                        raise faulty("it compresses what it was asked to send as it is")
                    yield reply
                    return
                try:
                    here = here.join(reply.headers.get("location", ""))
                except ValueError:
                    raise faulty("it redirects to something that is no address") from None
        raise faulty(f"it redirects more than {MAX_REDIRECTS} times")

    def failure(self, reply: HttpReply) -> RemoteFailure:
        """What a status other than success means."""
        if reply.status in {404, 410}:
            return absent()
        if reply.status in {401, 403, 407}:
            return RemoteFailure(
                FailureKind.DENIED,
                "the remote refuses this node's credentials: ask the node's operator",
            )
        if reply.status in {429, 503}:
            return RemoteFailure(
                FailureKind.BUSY,
                "the remote is busy: adapters on this node are not affected",
                retry_after_s=_retry_after_s(
                    reply.headers.get("retry-after", ""), self._unix_clock_s()
                ),
            )
        return faulty(f"it answers with status {reply.status}")

    async def aclose(self) -> None:
        """Closes idle connections."""
        await self._pool.aclose()

    def _check(self, address: WebAddress) -> None:
        if address.place not in self._allowed:
            raise faulty("it refers to a host the node's operator did not allow")
        if address.scheme not in self._schemes:
            raise faulty("it refers to an address without TLS, which is not allowed")

    @asynccontextmanager
    async def _exchange(
        self, address: WebAddress, headers: Mapping[str, str]
    ) -> AsyncIterator[HttpReply]:
        request = httpcore2.Request(
            "GET",
            httpcore2.URL(
                scheme=address.scheme.encode(),
                host=address.place.host.encode(),
                port=address.place.port,
                target=address.target.encode(),
            ),
            headers=list(headers.items()),
            # For each address of a host: half, so that a second one can still be tried.
            extensions={"timeout": {"connect": self._answer_timeout_s / 2}},
        )
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                response = await self._pool.handle_async_request(request)
        except TimeoutError:
            raise unreachable("it does not answer in time") from None
        except (httpcore2.TimeoutException, httpcore2.NetworkError, ssl.SSLError) as error:
            raise unreachable(_why(error)) from error
        except httpcore2.ProtocolError as error:
            raise faulty("its answer is not HTTP") from error
        try:
            named = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            yield HttpReply(response.status, named, _body(response))
        finally:
            await response.aclose()


async def _body(response: httpcore2.Response) -> AsyncGenerator[bytes]:
    try:
        async for chunk in response.aiter_stream():
            yield chunk
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        ssl.SSLError,
    ) as error:
        raise faulty("it cut the transfer") from error


def _why(error: Exception) -> str:
    # The library wraps what happened, without a chain.
    if any(isinstance(wrapped, ssl.SSLError) for wrapped in (error, *error.args)):
        return "its certificate or its TLS is not accepted"
    return "the connection failed"


def _retry_after_s(text: str, now_s: float) -> float | None:
    """Seconds, or an HTTP date (RFC 9110, 10.2.3); None for anything else."""
    try:
        if text.isascii() and text.isdigit():
            return float(text)
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        delay_s = moment.timestamp() - now_s
    except (ValueError, OverflowError):
        return None
    return max(0.0, delay_s) if math.isfinite(delay_s) else None
