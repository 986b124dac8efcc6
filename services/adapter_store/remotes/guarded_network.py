"""Connections that go only where the operator lets them, checked on the address itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from httpcore2 import (
    AnyIOBackend,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
)

from services.adapter_store.remotes.failures import FailureKind, RemoteFailure, unreachable
from services.adapter_store.remotes.name_lookup import Resolve
from services.adapter_store.remotes.web_address import Place, is_public


class GuardedNetwork(AsyncNetworkBackend):
    """Connects to the address it checked, so that a name can not change its mind in between.

    Only the operator's own words, the places of `trusted`, may mean an address that is not public.
    """

    def __init__(self, trusted: Collection[Place], resolve: Resolve) -> None:
        self._trusted = trusted
        self._resolve = resolve
        self._backend = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        """Tries the host's addresses in turn. Raises RemoteFailure or the library's errors."""
        try:
            addresses = await self._resolve(host, port)
        except OSError:
            raise unreachable("its name is unknown here") from None
        if Place(host, port) not in self._trusted:
            addresses = [address for address in addresses if is_public(address)]
            if not addresses:
                raise RemoteFailure(
                    FailureKind.FAULTY,
                    "the remote refers to an address inside this network, which is refused",
                )
        for address in addresses:
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (ConnectError, ConnectTimeout):
                continue
        raise unreachable("it does not accept connections")
