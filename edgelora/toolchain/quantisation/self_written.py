"""Texts that the model writes itself, by the native core with plainly rounded weights."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from edgelora_native import BLOCK_TOKENS
from edgelora_native.engine import Chunk, Engine, Limits
from numpy.typing import NDArray

from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.native_form import write_native
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration_data import CalibrationText
from edgelora.toolchain.rounding import PlainRounding

_STREAMS = 16


class _Silent:
    def advance(self, amount: int, note: str = "") -> None:
        pass


def write_texts(
    model: ModelSource, count: int, tokens: int, *, seed: int, threads: int, bar: Bar
) -> CalibrationText:
    """Samples `count` texts of `tokens` at temperature 1, each from a random first token.

    `bar` counts tokens. The packed model lies in a temporary directory meanwhile.
    """
    draw = np.random.default_rng(seed)
    each = -(-tokens // BLOCK_TOKENS)
    written: list[NDArray[np.int32]] = []
    with tempfile.TemporaryDirectory(prefix="edgelora-calibration-") as directory:
        packed = Path(directory) / "model.edgelora"
        write_native(packed, model, PlainRounding(), _Silent())
        engine = Engine(
            packed,
            Limits(
                num_kv_blocks=_STREAMS * each,
                max_loras=1,
                max_lora_rank=1,
                max_step_tokens=_STREAMS,
                num_threads=threads,
            ),
        )
        try:
            while sum(len(one) for one in written) < count:
                streams = min(_STREAMS, count - sum(len(one) for one in written))
                written.append(
                    _write(engine, streams, tokens, each, model.shape.vocab_size, draw, bar)
                )
        finally:
            engine.close()
    ids = np.concatenate(written)
    digest = hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest()
    return CalibrationText("texts the model wrote itself", digest, ids.reshape(-1).tolist())


def _write(
    engine: Engine,
    streams: int,
    tokens: int,
    blocks: int,
    vocab_size: int,
    draw: np.random.Generator,
    bar: Bar,
) -> NDArray[np.int32]:
    """[streams, tokens]."""
    ids = np.empty((streams, tokens), dtype=np.int32)
    ids[:, 0] = draw.integers(0, vocab_size, streams)
    for position in range(tokens - 1):
        logits = engine.forward(
            [
                Chunk(
                    token_ids=ids[row, position : position + 1],
                    start_position=position,
                    block_table=range(row * blocks, (row + 1) * blocks),
                    adapters=(),
                    needs_logits=True,
                )
                for row in range(streams)
            ]
        )[:, :vocab_size]
        # The Gumbel trick: the largest of noisy logits is a draw from their distribution.
        ids[:, position + 1] = (logits + draw.gumbel(size=logits.shape)).argmax(axis=1)
        bar.advance(streams)
    return ids
