"""One piece of work of a tenant's client, from a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from edgelora.cli.places import connection
from edgelora.client import EdgeLoraClient

ResultT = TypeVar("ResultT")


def call_node(
    where: dict[str, Any], work: Callable[[EdgeLoraClient], Awaitable[ResultT]]
) -> ResultT:
    """Connects as the options of `connection_options` say, does the work, and disconnects."""
    target = connection(**where)

    async def run() -> ResultT:
        async with target.client() as client:
            return await work(client)

    return asyncio.run(run())
