"""Readiness that is true only while the store can really read its registry and its blobs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable

from services.chassis.logs import get_logger

PERIOD_S = 2.0


async def keep_ready(
    probe: Callable[[], None], set_ready: Callable[[bool], Awaitable[None]]
) -> None:
    """Runs the probe for ever and reports each change of its outcome."""
    was_ready: bool | None = None
    while True:
        try:
            probe()
            is_ready = True
        except (OSError, sqlite3.Error) as error:
            is_ready = False
            if was_ready is not False:
                get_logger().error("storage_unreadable", error_type=type(error).__name__)
        if is_ready != was_ready:
            await set_ready(is_ready)
            was_ready = is_ready
        await asyncio.sleep(PERIOD_S)
