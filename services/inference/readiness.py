"""Health that means something: red until a token was made, red again when none comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from services.chassis.logs import get_logger
from services.inference.engine.sequence import StopConditions
from services.inference.slot_engine import SteppingEngine

if TYPE_CHECKING:
    from services.inference.engine.engine import Engine

_CHECK_INTERVAL_S = 0.5


async def generate_one_token(engine: Engine, token_ids: tuple[int, ...]) -> None:
    """Runs a real sequence of one token. Raises what the engine raises."""
    stream = engine.submit(list(token_ids), stop=StopConditions(max_tokens=1, ignore_eos=True))
    try:
        async for _ in stream:
            pass
    finally:
        stream.close()


class ReadinessWatch:
    """Turns health red while work waits and no step ends, and green when steps end again."""

    def __init__(
        self,
        engine: SteppingEngine,
        set_ready: Callable[[bool], Awaitable[None]],
        *,
        stall_limit_s: float,
    ) -> None:
        self._engine = engine
        self._set_ready = set_ready
        self._stall_limit_s = stall_limit_s
        self._is_ready = False

    async def run(self) -> None:
        """Watches for ever."""
        while True:
            await self.check()
            await asyncio.sleep(_CHECK_INTERVAL_S)

    async def check(self) -> None:
        """Looks once, and reports a change."""
        is_ready = self._engine.stalled_s() < self._stall_limit_s
        if is_ready != self._is_ready:
            self._is_ready = is_ready
            get_logger().info("engine_became_ready" if is_ready else "engine_stalled")
            await self._set_ready(is_ready)
