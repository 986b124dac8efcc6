"""Work for a client ends when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from edgelora.errors import CancelledRequestError

ResultT = TypeVar("ResultT")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Runs `work`, and cancels it when the client closes the connection.

    The body of the request must have been read, or be of no interest: what comes of it is
    dropped. Raises CancelledRequestError when the client left, and what `work` raises.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise CancelledRequestError("the client left")
    finally:
        for task in (working, watching):
            task.cancel()
        # Not until both have ended is nothing of theirs left behind.
        await asyncio.gather(working, watching, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
