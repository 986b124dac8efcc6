"""One piece of work of the operator's client, from a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from edgelora.cli.places import admin_target
from edgelora.client import AdminClient

ResultT = TypeVar("ResultT")


def call_admin(
    admin_address: str | None, home: Path, work: Callable[[AdminClient], Awaitable[ResultT]]
) -> ResultT:
    """Connects as the options of `admin_options` say, does the work, and disconnects."""
    address = admin_target(admin_address, home)

    async def run() -> ResultT:
        async with AdminClient(address) as admin:
            return await work(admin)

    return asyncio.run(run())
