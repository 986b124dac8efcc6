"""Makes the torch back end from plain settings, so that nobody else has to import torch."""

from __future__ import annotations

import os

# The OpenMP of torch reads this when it is loaded. By default its threads spin for milliseconds
# at the end of every operation: once another process wants a whole core, each of the hundreds of
# operations of a step waits out a time slice. Measured on two cores, the products of one step:
# alone 13 ms either way, beside a busy process 964 ms by default and about 45 ms like this. The
# price is a tenth of the speed where the event loop and the engine share the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "4000")

import torch

from services.inference.backends.torch_backend import TorchBackend

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def make_torch_backend(*, num_threads: int, dtype: str, device: str = "cpu") -> TorchBackend:
    """`dtype` is `float32` or `bfloat16`. Raises KeyError for another one."""
    return TorchBackend(num_threads=num_threads, dtype=_DTYPES[dtype], device=device)
