"""Hands events from the task that makes them to the call that sends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from edgelora.errors import CancelledRequestError

EventT = TypeVar("EventT")
_MAX_EVENTS = 64


class Delivery(Generic[EventT]):
    """A bounded line of events with an end. When it is full, the maker waits for the reader.

    A reader that takes nothing for `stall_s` is given up. The maker stops then; should the reader
    come back, it gets what was in the line, and then the error.
    """

    def __init__(self, *, stall_s: float) -> None:
        self._stall_s = stall_s
        self._events: deque[EventT] = deque()
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_closed = False
        self._error: BaseException | None = None

    async def put(self, event: EventT) -> None:
        """Adds an event. Raises CancelledRequestError when the reader does not read."""
        if len(self._events) >= _MAX_EVENTS:
            self._has_room.clear()
            try:
                async with asyncio.timeout(self._stall_s):
                    await self._has_room.wait()
            except TimeoutError:
                raise CancelledRequestError(
                    f"the client read nothing for {self._stall_s:g} seconds"
                ) from None
        self._events.append(event)
        self._has_news.set()

    def close(self, error: BaseException | None) -> None:
        """Ends the line, well or with an error."""
        self._is_closed = True
        self._error = error
        self._has_news.set()

    async def __aiter__(self) -> AsyncIterator[EventT]:
        """Yields every event in order, then ends or raises what `close` was given."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._has_room.set()
                yield event
            if self._is_closed:
                if self._error is not None:
                    raise self._error
                return
            self._has_news.clear()
            await self._has_news.wait()
