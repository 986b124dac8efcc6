"""The native back end, one step at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.inference.backends.base import SequenceChunk
from services.inference.backends.native_backend import NativeBackend


class GatedBackend(NativeBackend):
    """Waits before each step until it may, and keeps what ran and what came of it."""

    def __init__(self) -> None:
        super().__init__(num_threads=2)
        self._may_step = threading.Semaphore(0)
        self._is_open = False
        self.arrived = threading.Semaphore(0)
        """Released when a step waits."""
        self.ran: list[list[SequenceChunk]] = []
        self.logits: list[NDArray[np.float32]] = []

    def forward(self, chunks: Sequence[SequenceChunk]) -> NDArray[np.float32]:
        if not self._is_open:
            self.arrived.release()
            self._may_step.acquire()
        logits = super().forward(chunks)
        self.ran.append(list(chunks))
        self.logits.append(logits.copy())
        return logits

    def step(self) -> None:
        """Lets the step that waits run, and returns when the next one waits."""
        self._may_step.release()
        self.arrived.acquire()

    def open(self) -> None:
        """Lets everything run."""
        self._is_open = True
        self._may_step.release()
