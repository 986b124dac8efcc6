"""Blocking work off the event loop, never left running behind a cancelled caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function in a thread and returns its result.

    A cancelled caller first waits for the function to end: what it works on (a descriptor, a
    connection) may be closed as soon as this returns.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen, so that it is not reported as lost
        raise
