"""One store, with and without Redis."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.redis_server import RedisServer


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StoreProcess]:
    process = StoreProcess(tmp_path)
    try:
        await process.start()
        yield process
    finally:
        process.close()


@pytest.fixture
async def client(store: StoreProcess) -> AsyncIterator[StoreClient]:
    async with open_channel(store.address) as channel:
        yield StoreClient(channel)


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="edgelora-redis-") as directory:
        server = RedisServer(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()
