"""How fast this machine reads memory: the bound of decoding a single stream.

Each thread runs the C library's memchr, which looks at every byte once, in vector registers and in
order, over a part of its own of a buffer much larger than the caches, for a byte that is not there.
The interpreter's lock is not held meanwhile.
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
    memchr = ctypes.CDLL(None).memchr
    memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    memchr.restype = ctypes.c_void_p
    each = _BUFFER_BYTES // num_threads
    # Written once, so that every page is there; untouched ones all are the same page of zeros.
    buffer = np.full(each * num_threads, 1, dtype=np.uint8)
    begins = [buffer.ctypes.data + index * each for index in range(num_threads)]
    best_s = float("inf")
    with ThreadPoolExecutor(num_threads) as pool:
        for _ in range(_PASSES):
            start_s = time.perf_counter()
            list(pool.map(lambda begin: memchr(begin, 2, each), begins))
            best_s = min(best_s, time.perf_counter() - start_s)
    return len(buffer) / best_s
