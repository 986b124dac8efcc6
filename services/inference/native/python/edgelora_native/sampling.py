"""How a token is chosen from a row of logits, and what comes of it. `Engine.sample` does it."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSampling:
    """The settings of one row."""

    temperature: float
    """0: the likeliest token."""
    top_k: int = 0
    """0: all tokens."""
    top_p: float = 1.0
    min_p: float = 0.0
    draw: float = 0.0
    """A random number in [0, 1)."""
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalised: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
    """Tokens of prompt and output, each once, and how often each stands in the output."""
    num_logprobs: int | None = None
    """Likeliest tokens to tell of, at most `MAX_TOP_LOGPROBS`; None: no log probability."""
    mask: NDArray[np.uint32] | None = None
    """Tokens that may be chosen: bit i % 32 of word i // 32. None: all."""


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """A token with its natural log probability, when wanted, and the likeliest tokens."""

    token_id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


class RawSampling(ctypes.Structure):
    """`el_sampling` of the C interface."""

    _fields_ = (
        ("num_rows", ctypes.c_int32),
        ("num_tokens", ctypes.c_int32),
        ("row_stride", ctypes.c_int64),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "logits",
                "temperature",
                "top_k",
                "top_p",
                "min_p",
                "draws",
                "repetition_penalty",
                "presence_penalty",
                "frequency_penalty",
                "penalty_offsets",
                "penalty_ids",
                "penalty_counts",
                "num_logprobs",
                "masks",
                "token_ids",
                "logprobs",
                "top_ids",
                "top_logprobs",
            )
        ),
    )


class SamplingCall:
    """The arrays of one call of `el_sample`."""

    def __init__(self, logits: NDArray[np.float32], rows: Sequence[RowSampling]) -> None:
        """`logits`: [rows, tokens] float32, each row in one piece. Raises ValueError otherwise."""
        if logits.dtype != np.float32 or logits.ndim != 2 or logits.strides[1] != 4:
            raise ValueError("logits must be a matrix of float32 with rows in one piece")
        if len(rows) != len(logits):
            raise ValueError(f"{len(logits)} rows of logits, but settings for {len(rows)}")
        self._rows = rows
        count = len(rows)
        num_words = -(-logits.shape[1] // 32)
        masks = array("Q", bytes(8 * count))
        for index, row in enumerate(rows):
            if row.mask is not None:
                if row.mask.dtype != np.uint32 or not row.mask.flags.c_contiguous:
                    raise ValueError("a mask must be words of uint32 in one piece")
                if row.mask.size < num_words:
                    raise ValueError(f"a mask has {row.mask.size} words, it needs {num_words}")
                masks[index] = row.mask.ctypes.data
        # Buffers of the standard library: a third of the cost of numpy for a few numbers each.
        offsets, ids, counts = array("i", [0]), array("i"), array("i")
        for row in rows:
            if row.penalised is not None:
                ids.frombytes(row.penalised[0].astype(np.int32).tobytes())
                counts.frombytes(row.penalised[1].astype(np.int32).tobytes())
            offsets.append(len(ids))
        if len(ids) != len(counts):
            raise ValueError("every penalised token needs a count")
        # No buffer may be empty, since an empty one has no address.
        ids.append(0)
        counts.append(0)
        self._token_ids = array("i", bytes(4 * count))
        self._logprobs = array("d", bytes(8 * count))
        self._top_ids = array("i", bytes(4 * count * MAX_TOP_LOGPROBS))
        self._top_logprobs = array("d", bytes(8 * count * MAX_TOP_LOGPROBS))
        self._arrays = (
            array("f", [row.temperature for row in rows]),
            array("i", [row.top_k for row in rows]),
            array("f", [row.top_p for row in rows]),
            array("f", [row.min_p for row in rows]),
            array("d", [row.draw for row in rows]),
            array("f", [row.repetition_penalty for row in rows]),
            array("f", [row.presence_penalty for row in rows]),
            array("f", [row.frequency_penalty for row in rows]),
            offsets,
            ids,
            counts,
            array("i", [-1 if row.num_logprobs is None else row.num_logprobs for row in rows]),
            masks,
            self._token_ids,
            self._logprobs,
            self._top_ids,
            self._top_logprobs,
        )
        self._logits = logits
        self.raw = RawSampling(
            count,
            logits.shape[1],
            logits.strides[0] // 4,
            logits.ctypes.data,
            *(each.buffer_info()[0] for each in self._arrays),
        )

    def chosen(self) -> list[ChosenToken | None]:
        """What was chosen, row by row; None for a row that holds what is not
        finite, or whose mask is empty."""
        return [self._chosen_in(index, row) for index, row in enumerate(self._rows)]

    def _chosen_in(self, index: int, row: RowSampling) -> ChosenToken | None:
        token_id = self._token_ids[index]
        if token_id < 0:
            return None
        if row.num_logprobs is None:
            return ChosenToken(token_id, None, ())
        likeliest = slice(index * MAX_TOP_LOGPROBS, index * MAX_TOP_LOGPROBS + row.num_logprobs)
        top = zip(self._top_ids[likeliest], self._top_logprobs[likeliest], strict=True)
        return ChosenToken(token_id, self._logprobs[index], tuple(top))
