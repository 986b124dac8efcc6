"""How fast this machine reads memory: the bound of decoding a single stream.

Each thread runs the C library's memcmp over two equal halves of a part of its own of a buffer much
larger than the caches: every byte is read once, in order, into vector registers, two streams at a
time, which was faster than one (memchr), than four or eight, and than reading ahead by hand. The
interpreter's lock is not held meanwhile.
"""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_BUFFER_BYTES = 1 << 30
_PASSES = 7


def read_bandwidth(num_threads: int) -> float:
    """Returns bytes a second that `num_threads` read together: the best of some passes."""
    memcmp = ctypes.CDLL(None).memcmp
    memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    half = _BUFFER_BYTES // num_threads // 2
    each = 2 * half
    # Written once, so that every page is there; untouched ones all are the same page of zeros.
    buffer = np.full(each * num_threads, 1, dtype=np.uint8)
    begins = [buffer.ctypes.data + index * each for index in range(num_threads)]
    best_s = float("inf")
    with ThreadPoolExecutor(num_threads) as pool:
        for _ in range(_PASSES):
            start_s = time.perf_counter()
            list(pool.map(lambda begin: memcmp(begin, begin + half, half), begins))
            best_s = min(best_s, time.perf_counter() - start_s)
    return len(buffer) / best_s
