"""A back end of ours through its interface: `python -m bench.peers.native native` (or `torch`)."""

from __future__ import annotations

import importlib.metadata
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.engine_streams import read_written_adapter
from bench.measure import median, negative_log_likelihood
from bench.peers.child import serve
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits, SequenceChunk, SlotWeight
from services.inference.backends.sampling import RowSampling
from services.inference.engine.sampler import SequenceSampler
from services.inference.engine.sequence import SamplingParams

_BLOCK_SIZE = 16
_STEP_TOKENS = 512
_SAMPLED_PROMPT_TOKENS = 64
_LOGITS_STD = 3.0
"""About that of the default model's logits."""
_GREEDY = RowSampling()


class BackendStreams:
    """A back end with every adapter in a slot and a fixed range of blocks for each stream."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._backend: Backend

    def load(
        self,
        *,
        model_directory: str,
        adapters: list[str],
        threads: int,
        max_streams: int,
        max_tokens: int,
    ) -> dict[str, Any]:
        """Loads everything. `max_tokens` bounds a stream, prompt included."""
        self._backend = make_backend(self._name, threads)
        directory = Path(model_directory)
        model = BaseModel.load(directory)
        weights = [read_written_adapter(Path(path), model) for path in adapters]
        self._max_streams = max_streams
        self._blocks_each = -(-max_tokens // _BLOCK_SIZE)
        self._backend.load_model(
            directory,
            BackendLimits(
                num_kv_blocks=max_streams * self._blocks_each,
                block_size=_BLOCK_SIZE,
                max_loras=max(1, len(weights)),
                max_lora_rank=max((one.max_rank for one in weights), default=1),
                max_step_tokens=_STEP_TOKENS,
            ),
        )
        for slot, one in enumerate(weights):
            self._backend.load_adapter(slot, one)
        return {"version": describe_version(self._name)}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        ids = self._prefill(np.asarray(prompts, dtype=np.int32), adapters)
        chosen = [ids]
        decode_begin = time.perf_counter()
        for position in range(len(prompts[0]), len(prompts[0]) + new_tokens):
            ids = self._step(ids, position, adapters)
            chosen.append(ids)
        end = time.perf_counter()
        return {
            "decode_s": end - decode_begin,
            "total_s": end - begin,
            "token_ids": np.concatenate(chosen, axis=1).tolist(),
        }

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        self._prefill(np.asarray([prompt], dtype=np.int32), [adapter])
        return {"seconds": time.perf_counter() - begin}

    def perplexity(self, *, windows: list[list[int]], first: int = 1) -> dict[str, Any]:
        """See bench.peers.child. Windows run side by side, a token of each in a step."""
        nll = 0.0
        for at in range(0, len(windows), self._max_streams):
            ids = np.asarray(windows[at : at + self._max_streams], dtype=np.int32)
            base: list[int | None] = [None] * len(ids)
            if first > 1:
                self._prefill(ids[:, : first - 1], base)
            for position in range(first - 1, ids.shape[1] - 1):
                logits = self._forward(ids[:, position : position + 1], position, base)
                nll += negative_log_likelihood(logits, ids[:, position + 1])
        return {"nll": nll, "tokens": sum(len(window) - first for window in windows)}

    def sample(
        self, *, params: dict[str, Any], rows: int, vocab_size: int, seed: int, repeats: int
    ) -> dict[str, Any]:
        """Times the choice of a token for each of `rows` random rows of logits, as the engine does.

        `params` are fields of SamplingParams. Returns {"seconds"}, the median.
        """
        draw = np.random.default_rng(seed)
        logits = draw.normal(0.0, _LOGITS_STD, (rows, vocab_size)).astype(np.float32)
        prompt = draw.integers(0, vocab_size, _SAMPLED_PROMPT_TOKENS).tolist()
        samplers = [SequenceSampler(SamplingParams(**params), prompt, None) for _ in range(rows)]
        taken_s = []
        for _ in range(repeats):
            begin = time.perf_counter()
            chosen = self._backend.sample(logits, [sampler.next_row() for sampler in samplers])
            for sampler, token in zip(samplers, chosen, strict=True):
                if token is not None:
                    sampler.note(token)
            taken_s.append(time.perf_counter() - begin)
        return {"seconds": median(taken_s)}

    def _prefill(self, prompts: NDArray[np.int32], adapters: list[int | None]) -> NDArray[np.int32]:
        each = max(1, _STEP_TOKENS // len(prompts))
        for at in range(0, prompts.shape[1], each):
            ids = self._step(prompts[:, at : at + each], at, adapters)
        return ids

    def _step(
        self, ids: NDArray[np.int32], position: int, adapters: list[int | None]
    ) -> NDArray[np.int32]:
        """Runs [streams, tokens] at a position; returns the likeliest next ids, [streams, 1]."""
        logits = self._forward(ids, position, adapters)
        chosen = self._backend.sample(logits, [_GREEDY] * len(ids))
        return np.array([[token.token_id] for token in chosen if token], dtype=np.int32)

    def _forward(
        self, ids: NDArray[np.int32], position: int, adapters: list[int | None]
    ) -> NDArray[np.float32]:
        each = self._blocks_each
        return self._backend.forward(
            [
                SequenceChunk(
                    token_ids=tokens,
                    start_position=position,
                    block_table=range(row * each, (row + 1) * each),
                    adapters=() if adapter is None else (SlotWeight(adapter, 1.0),),
                    needs_logits=True,
                )
                for row, (tokens, adapter) in enumerate(zip(ids, adapters, strict=True))
            ]
        )


def describe_version(name: str) -> str:
    """What stands for the version of a back end of ours in a report."""
    version = importlib.metadata.version("edgelora")
    if name == "torch":
        return f"{version}, torch {importlib.metadata.version('torch')}"
    from edgelora_native import instruction_set

    return f"{version}, {instruction_set()}"


def make_backend(name: str, threads: int) -> Backend:
    """Returns the back end called `native` or `torch`. Raises RuntimeError when it can not run."""
    if name == "torch":
        from services.inference.backends.torch_factory import make_torch_backend

        return make_torch_backend(num_threads=threads, dtype="float32")
    from services.inference.backends.native_backend import NativeBackend

    if problem := NativeBackend.probe():
        raise RuntimeError(problem)
    return NativeBackend(num_threads=threads)


if __name__ == "__main__":
    serve(BackendStreams(sys.argv[1]))
