"""The residual stream of all calibration windows, on disk between two layers."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

_BATCH_TOKENS = 1024
"""Tokens that one thread has in memory."""


class HiddenStates:
    """fp32 [windows, tokens, hidden_size] in a temporary file, which has no name and so leaves
    nothing behind; read and written a batch of windows at a time."""

    def __init__(self, windows: int, tokens: int, hidden_size: int) -> None:
        """Makes an empty file in the system's temporary directory."""
        self._file = tempfile.TemporaryFile(prefix="edgelora-calibration-")  # noqa: SIM115
        self._shape = (windows, tokens, hidden_size)
        self._each = max(1, _BATCH_TOKENS // tokens)

    def __enter__(self) -> HiddenStates:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[slice]:
        """The windows from `start` to `stop` (all: None), as many at a time as belong together."""
        stop = self._shape[0] if stop is None else stop
        for at in range(start, stop, self._each):
            yield slice(at, min(at + self._each, stop))

    def read(self, batch: slice) -> Tensor:
        """The states of some windows."""
        _, tokens, hidden = self._shape
        count = batch.stop - batch.start
        values = np.empty(count * tokens * hidden, dtype=np.float32)
        # Not the file's own position, which threads would share.
        read = os.preadv(self._file.fileno(), [values.data], 4 * batch.start * tokens * hidden)
        if read != values.nbytes:
            raise OSError(errno.EIO, "the temporary file of the calibration is cut")
        return torch.from_numpy(values).view(count, tokens, hidden)

    def write(self, batch: slice, states: Tensor) -> None:
        """Replaces them."""
        _, tokens, hidden = self._shape
        left = np.ascontiguousarray(states.numpy()).data.cast("B")
        place = 4 * batch.start * tokens * hidden
        while left:  # a disk that fills up takes a part, and says so when asked again
            written = os.pwritev(self._file.fileno(), [left], place)
            left, place = left[written:], place + written
