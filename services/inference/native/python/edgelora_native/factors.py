"""An adapter's factors as the C interface takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ERROR_SIZE = 256
"""Bytes of a refusal's text."""


class NativeError(RuntimeError):
    """The core refused a call; the text says why."""


@dataclass(frozen=True, slots=True)
class AdapterFactors:
    """One module of an adapter, with A [rank, in] and B [out, rank] in float32."""

    layer: int
    module: str
    lora_a: NDArray[np.float32]
    lora_b: NDArray[np.float32]
    scaling: float


class RawPair(ctypes.Structure):
    """`el_lora_pair` of the C interface."""

    _fields_ = (
        ("layer", ctypes.c_int32),
        ("module", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("in_features", ctypes.c_int32),
        ("out_features", ctypes.c_int32),
        ("scaling", ctypes.c_float),
        ("lora_a", ctypes.c_void_p),
        ("lora_b", ctypes.c_void_p),
    )


class RawPairs:
    """The pairs of one call, whose arrays live as long as this does."""

    def __init__(self, factors: Sequence[AdapterFactors], modules: Sequence[str]) -> None:
        """`modules`: names in the order of their numbers. Raises NativeError for other shapes and
        other modules."""
        self.raw = (RawPair * len(factors))()
        self._kept: list[NDArray[np.float32]] = []
        for pair, factor in zip(self.raw, factors, strict=True):
            lora_a = np.ascontiguousarray(factor.lora_a, dtype=np.float32)
            lora_b = np.ascontiguousarray(factor.lora_b, dtype=np.float32)
            if lora_a.ndim != 2 or lora_b.ndim != 2 or lora_a.shape[0] != lora_b.shape[1]:
                raise NativeError("an adapter module's factors must be [rank, in] and [out, rank]")
            if factor.module not in modules:
                raise NativeError(f"an adapter's module is none of {', '.join(modules)}")
            self._kept += [lora_a, lora_b]
            pair.layer, pair.module = factor.layer, modules.index(factor.module)
            pair.rank, pair.in_features = lora_a.shape
            pair.out_features, pair.scaling = lora_b.shape[0], factor.scaling
            pair.lora_a, pair.lora_b = lora_a.ctypes.data, lora_b.ctypes.data
