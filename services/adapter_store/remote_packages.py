"""The remote tier as the store's other parts see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edgelora.errors import NotFoundError
from services.adapter_store.arrivals import OnProgress, Package
from services.adapter_store.config import AdapterStoreConfig


class RemotePackages:
    """Brings packages of the remotes the operator set up."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: AdapterStoreConfig, quarantine: Path
    ) -> AsyncIterator[RemotePackages]:
        """Opens the remotes of the settings."""
        yield cls()

    @asynccontextmanager
    async def bring(
        self, tenant_id: str, reference: str, on_progress: OnProgress
    ) -> AsyncIterator[Package]:
        """See Packages."""
        raise NotFoundError("the operator has set up no remote of this name", field="package")
        yield
