"""Keeps the process from holding memory it no longer uses. Does nothing without glibc."""

from __future__ import annotations

import ctypes
import gc

_M_MMAP_THRESHOLD = -3
"""From malloc.h."""
_LARGE_BYTES = 4 * 2**20

_libc = ctypes.CDLL(None)
_mallopt = getattr(_libc, "mallopt", None)
_malloc_trim = getattr(_libc, "malloc_trim", None)


def map_large_blocks() -> None:
    """Has blocks of 4 MiB and more mapped apart, so that they go back to the system when freed.

    By itself glibc stops doing so after the first large block was freed; an adapter's files would
    then leave holes in the heap. The logits of a usual step are smaller and stay in the heap.
    """
    if _mallopt is not None:
        _mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def trim_heap() -> None:
    """Returns free pages of the heap: some 25 MB after reading a tokenizer.

    Takes a few milliseconds, without the interpreter's lock.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


def collect_garbage() -> None:
    """Frees what reference cycles hold, then trims. Holds the interpreter's lock meanwhile."""
    gc.collect()
    trim_heap()
