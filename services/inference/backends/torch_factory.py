"""Makes the torch back end from plain settings, so that nobody else has to import torch."""

from __future__ import annotations

import os

# The OpenMP of torch reads this when it is loaded. By default its threads spin for milliseconds
# at the end of every operation: as soon as another process wants a core, each of the hundreds of
# operations of a step may wait out a whole time slice (measured on two cores: 25 ms a step become
# 900). A short spin costs an idle machine about a tenth.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import torch

from services.inference.backends.torch_backend import TorchBackend

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def make_torch_backend(*, num_threads: int, dtype: str, device: str = "cpu") -> TorchBackend:
    """`dtype` is `float32` or `bfloat16`. Raises KeyError for another one."""
    return TorchBackend(num_threads=num_threads, dtype=_DTYPES[dtype], device=device)
