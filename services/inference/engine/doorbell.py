"""Wakes the event loop from another thread that keeps the interpreter lock.

`call_soon_threadsafe` writes to a socket, for which Python gives the lock away; the loop's thread
takes it, and a step waits until all it brought is delivered (up to the switch interval, 5 ms).
With the lock kept the loop wakes when the next forward pass gives it away anyway.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable

# Unlike CDLL, PyDLL does not release the interpreter lock around a call.
_write = ctypes.PyDLL(None).write
_write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
_write.restype = ctypes.c_ssize_t


class Doorbell:
    """A pipe into an event loop. All but `ring` belongs to the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> None:
        """`answer` is called on the loop after one or several rings."""
        self._loop = loop
        self._answer = answer
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        loop.add_reader(self._reader, self._on_ring)

    def ring(self) -> None:
        """Never waits: when the pipe is full the loop is on its way already."""
        _write(self._writer, b"\0", 1)

    def close(self) -> None:
        """Only when nobody rings any more, since the descriptors may belong to others then."""
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        os.close(self._writer)

    def _on_ring(self) -> None:
        os.read(self._reader, 4096)
        self._answer()
