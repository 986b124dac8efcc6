"""Our whole engine over the native back end: `python -m bench.peers.whole_engine`.

What a worker does without its network face: scheduling, KV blocks, sampling, detokenising.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from bench.engine_streams import EngineStreams
from bench.peers.child import serve
from bench.peers.native import describe_version, make_backend


class WholeEngine:
    """An engine with every adapter in a slot."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine: EngineStreams

    def load(
        self,
        *,
        model_directory: str,
        adapters: list[str],
        threads: int,
        max_streams: int,
        max_tokens: int,
    ) -> dict[str, Any]:
        """Starts the engine; adapters are loaded when they are first used."""
        self._engine = EngineStreams(
            make_backend("native", threads),
            Path(model_directory),
            [Path(path) for path in adapters],
            max_streams=max_streams,
            max_tokens=max_tokens,
        )
        self._loop.run_until_complete(self._engine.start())
        return {"version": describe_version("native")}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child."""
        measured = self._engine.measure(np.asarray(prompts, dtype=np.int32), adapters, new_tokens)
        return self._loop.run_until_complete(measured)

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        measured = self._engine.measure(np.asarray([prompt], dtype=np.int32), [adapter], 0)
        return {"seconds": self._loop.run_until_complete(measured)["total_s"]}


if __name__ == "__main__":
    serve(WholeEngine())
