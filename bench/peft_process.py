"""transformers + PEFT in a process of its own, as its users run it: nothing of ours set for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bench.engine_peft import PeftStreams

_OURS = "GOMP_SPINCOUNT"
"""What our torch back end sets for the OpenMP of its own process."""
_streams: PeftStreams | None = None
"""The loaded model; set in the child only."""


class PeftProcess:
    """The baseline, loaded once and asked again and again."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    async def load(self, model_directory: Path, adapters: Sequence[Path], num_threads: int) -> None:
        """Starts the process and loads the model and the adapters."""
        await asyncio.get_running_loop().run_in_executor(
            self._pool, _load, model_directory, list(adapters), num_threads
        )

    async def decode_speed(
        self, prompts: NDArray[np.int32], new_tokens: int, *, with_adapters: bool
    ) -> float:
        """Returns tokens a second over all rows of `prompts`, [streams, length]; no prefill."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _decode_speed, prompts, new_tokens, with_adapters
        )

    def close(self) -> None:
        """Ends the process."""
        self._pool.shutdown(cancel_futures=True)


def _load(model_directory: Path, adapters: list[Path], num_threads: int) -> None:
    global _streams
    os.environ.pop(_OURS, None)
    # Their notices of deprecation are not for those who read a benchmark.
    warnings.simplefilter("ignore", FutureWarning)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    # Imported only now, so that OpenMP is loaded with its defaults.
    import torch

    from bench.engine_peft import PeftStreams

    torch.set_num_threads(num_threads)
    _streams = PeftStreams(model_directory, adapters)


def _decode_speed(prompts: NDArray[np.int32], new_tokens: int, with_adapters: bool) -> float:
    assert _streams is not None
    return _streams.decode_speed(prompts, new_tokens, with_adapters=with_adapters)
