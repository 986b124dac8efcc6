"""The remote tier as the store's other parts see it: packages that arrive, files and all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.adapter_store.arrivals import EncodedPackage, OnProgress, Package
from services.adapter_store.config import PREFIX, AdapterStoreConfig
from services.adapter_store.registry.manifest import Blob
from services.adapter_store.remotes.assembly import assemble_fetcher
from services.adapter_store.remotes.fetched import FetchedEncoded, FetchedPackage
from services.adapter_store.remotes.fetcher import RemoteFetcher
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.remotes_file import load_remotes
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import AdapterFiles

QUARANTINE_DIRECTORY = "quarantine"
_PARTIALS = 2
"""Adapters of the largest size that unfinished transfers may take together."""


class RemotePackages:
    """Brings packages of the remotes the operator set up."""

    def __init__(self, fetcher: RemoteFetcher, encoded_for: str | None) -> None:
        """`encoded_for`: the base model whose encoded forms come along; None for none."""
        self._fetcher = fetcher
        self._encoded_for = encoded_for

    @asynccontextmanager
    async def bring(
        self, tenant_id: str, reference: str, on_progress: OnProgress
    ) -> AsyncIterator[Package]:
        """See Packages."""
        fetched = await self._fetcher.fetch_package(
            tenant_id,
            parse_reference(reference),
            encoded_for=self._encoded_for,
            on_progress=on_progress,
        )
        try:
            yield _package(fetched)
        finally:
            await in_thread(fetched.discard)

    @asynccontextmanager
    async def bring_encoded(
        self, tenant_id: str, reference: str, encoded: Blob
    ) -> AsyncIterator[EncodedPackage | Package]:
        """See Packages."""
        fetched = await self._fetcher.fetch_encoded(
            tenant_id,
            parse_reference(reference),
            digest=f"sha256:{encoded.name}",
            size_bytes=encoded.size_bytes,
        )
        try:
            if isinstance(fetched, FetchedEncoded):
                yield EncodedPackage(file=fetched.path, received_bytes=fetched.total_bytes)
            else:
                yield _package(fetched)
        finally:
            await in_thread(fetched.discard)


def _package(fetched: FetchedPackage) -> Package:
    return Package(
        reference=fetched.source,
        files=AdapterFiles(
            directory=fetched.directory,
            config=fetched.config_path,
            weights=fetched.weights_path,
            probe=fetched.probe_path,
            card=fetched.card_path,
            weights_bytes=fetched.weights_bytes,
            weights_sha256=fetched.weights_sha256,
            encoded=fetched.encoded_path,
            head=fetched.head_path,
        ),
        received_bytes=fetched.total_bytes,
    )


@asynccontextmanager
async def open_packages(
    config: AdapterStoreConfig, *, encoded_for: str | None
) -> AsyncIterator[RemotePackages]:
    """Opens the remotes of the settings. Raises ConfigError for a remotes file with mistakes.

    `encoded_for`: the base model whose encoded forms come along; None for none.
    """
    remotes = {}
    if config.remotes_file is not None:
        remotes = load_remotes(config.remotes_file, f"{PREFIX}REMOTES_FILE")
    fetcher = await asyncio.to_thread(
        assemble_fetcher,
        remotes,
        config.directory / QUARANTINE_DIRECTORY,
        max_weights_bytes=config.max_adapter_bytes,
        max_partial_bytes=_PARTIALS * config.max_adapter_bytes,
        min_free_bytes=config.min_free_bytes,
    )
    try:
        yield RemotePackages(fetcher, encoded_for)
    finally:
        await fetcher.aclose()
