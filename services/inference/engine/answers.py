"""Answers of the engine's thread to questions from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from edgelora.errors import ServiceUnavailableError

AnswerT = TypeVar("AnswerT")


class Answers:
    """Those that are still to come. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def wait_for(self, ask: Callable[[Callable[[AnswerT], None]], None]) -> AnswerT:
        """Calls `ask` with what takes the answer, and waits for it.

        Raises ServiceUnavailableError when there will be none.
        """
        if self._is_closed:
            raise _stopped()
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()

        def take(value: AnswerT) -> None:
            if not answer.done():  # whoever asked may have left
                answer.set_result(value)

        self._waiting.add(answer)
        try:
            ask(take)
            return await answer
        finally:
            self._waiting.discard(answer)

    def close(self) -> None:
        """Says that no more will come."""
        self._is_closed = True
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(_stopped())


def _stopped() -> ServiceUnavailableError:
    return ServiceUnavailableError("the engine has stopped: try again", retry_after_s=1.0)
