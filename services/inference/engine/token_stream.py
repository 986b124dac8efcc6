"""The reader's end of one generation. Lives on the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from services.inference.engine.events import Completed, Event, Failed, TextDelta


class TokenStream:
    """An asynchronous iterator of events that ends after Completed, or raises what cut it.

    `close` must be called in the scope that opened it; it cancels what still runs.
    """

    def __init__(self, on_close: Callable[[], None], sequence_id: int = 0) -> None:
        self._on_close = on_close
        self.sequence_id = sequence_id
        """What the engine knows it by."""
        self._events: deque[Event] = deque()
        self._has_event = asyncio.Event()
        self._is_ended = False
        self._is_closed = False

    def deliver(self, event: Event) -> None:
        """Adds an event; nothing is taken after the end."""
        if self._is_ended:
            return
        self._is_ended = isinstance(event, Completed | Failed)
        self._events.append(event)
        self._has_event.set()

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._is_ended:
                raise StopAsyncIteration
            self._has_event.clear()
            await self._has_event.wait()
        event = self._events.popleft()
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, TextDelta):
            return self._joined_with_next(event)
        return event

    def close(self) -> None:
        """Gives the sequence up. Again, or after the end, is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._is_ended = True
            self._on_close()

    def _joined_with_next(self, delta: TextDelta) -> TextDelta:
        # A slow reader gets few large pieces instead of many small ones.
        while self._events and isinstance(following := self._events[0], TextDelta):
            self._events.popleft()
            delta = TextDelta(
                delta.text + following.text, delta.tokens + following.tokens, following.engine_s
            )
        return delta
