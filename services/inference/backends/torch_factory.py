"""Makes the torch back end from plain settings, so that nobody else has to import torch."""

from __future__ import annotations

import torch

from services.inference.backends.torch_backend import TorchBackend

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def make_torch_backend(*, num_threads: int, dtype: str, device: str = "cpu") -> TorchBackend:
    """`dtype` is `float32` or `bfloat16`. Raises KeyError for another one."""
    return TorchBackend(num_threads=num_threads, dtype=_DTYPES[dtype], device=device)
