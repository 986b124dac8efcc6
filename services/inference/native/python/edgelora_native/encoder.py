"""The Python face of include/edgelora_encoder.h: BERT-type encoders with an adapter for each text.

Calls release the interpreter lock. An encoder belongs to one thread at a time, but for `load_lora`
and `unload_lora`, which another one may call beside it.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgelora_native.factors import ERROR_SIZE, AdapterFactors, NativeError, RawPair, RawPairs
from edgelora_native.library import ERROR, LIBRARY

ENCODER_MODULES = (
    "query",
    "key",
    "value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
"""Names of the adapted modules in the order of their numbers."""
Pooling = Literal["mean", "cls", "pooler"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "pooler")
"""How a text's vectors become one, in the order of their numbers: their mean, the first one, or the
first one through the model's pooler."""


class _Limits(ctypes.Structure):
    _fields_ = (
        ("max_loras", ctypes.c_int32),
        ("max_lora_rank", ctypes.c_int32),
        ("max_step_tokens", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
    )


class _Description(ctypes.Structure):
    _fields_ = (
        ("vocab_size", ctypes.c_int32),
        ("hidden_size", ctypes.c_int32),
        ("num_layers", ctypes.c_int32),
        ("max_context_tokens", ctypes.c_int32),
        ("has_pooler", ctypes.c_int32),
        ("weights_bytes", ctypes.c_int64),
        ("adapter_slots_bytes", ctypes.c_int64),
    )


class _Texts(ctypes.Structure):
    _fields_ = (
        ("num_texts", ctypes.c_int32),
        ("token_ids", ctypes.c_void_p),
        ("token_offsets", ctypes.c_void_p),
        ("adapter_slots", ctypes.c_void_p),
        ("adapter_weights", ctypes.c_void_p),
        ("adapter_offsets", ctypes.c_void_p),
        ("poolings", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLimits:
    """What an encoder allocates once."""

    max_loras: int
    max_lora_rank: int
    max_step_tokens: int
    """Most tokens of one call, all texts together."""
    num_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDescription:
    """What an encoder holds."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    max_context_tokens: int
    """Most tokens of one text."""
    has_pooler: bool
    weights_bytes: int
    adapter_slots_bytes: int


LIBRARY.el_encoder_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Limits), *ERROR]
LIBRARY.el_encoder_open.restype = ctypes.c_void_p
LIBRARY.el_encoder_close.argtypes = [ctypes.c_void_p]
LIBRARY.el_encoder_close.restype = None
LIBRARY.el_encoder_describe.argtypes = [ctypes.c_void_p]
LIBRARY.el_encoder_describe.restype = _Description
LIBRARY.el_encoder_load.argtypes = [
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.POINTER(RawPair),
    ctypes.c_int32,
    *ERROR,
]
LIBRARY.el_encoder_load.restype = ctypes.c_int64
LIBRARY.el_encoder_unload.argtypes = [ctypes.c_void_p, ctypes.c_int32, *ERROR]
LIBRARY.el_encode.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Texts), ctypes.c_void_p, *ERROR]


class Encoder:
    """One mapped encoder with its adapter slots."""

    def __init__(self, packed_file: Path, limits: EncoderLimits) -> None:
        """Maps the file and allocates everything. Raises NativeError."""
        self._error = ctypes.create_string_buffer(ERROR_SIZE)
        self._handle = LIBRARY.el_encoder_open(
            os.fsencode(packed_file),
            ctypes.byref(
                _Limits(
                    limits.max_loras,
                    limits.max_lora_rank,
                    limits.max_step_tokens,
                    limits.num_threads,
                )
            ),
            self._error,
            ERROR_SIZE,
        )
        if self._handle is None:
            raise NativeError(self._error.value.decode())
        raw = LIBRARY.el_encoder_describe(self._handle)
        values = {name: getattr(raw, name) for name, _ in _Description._fields_}
        values["has_pooler"] = bool(values["has_pooler"])
        self.description = EncoderDescription(**values)

    def close(self) -> None:
        """Frees everything; the encoder can not be used any more."""
        handle, self._handle = self._handle, None
        if handle is not None:
            LIBRARY.el_encoder_close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def load_lora(self, slot: int, factors: Sequence[AdapterFactors]) -> int:
        """Writes an adapter into an empty slot and returns the bytes it holds there.

        Modules are those of `ENCODER_MODULES`. Raises NativeError; then the slot is as before.
        """
        pairs = RawPairs(factors, ENCODER_MODULES)
        # Not the buffer of the thread that runs the steps.
        error = ctypes.create_string_buffer(ERROR_SIZE)
        num_bytes: int = LIBRARY.el_encoder_load(
            self._open(), slot, pairs.raw, len(factors), error, ERROR_SIZE
        )
        if num_bytes < 0:
            raise NativeError(error.value.decode())
        return num_bytes

    def unload_lora(self, slot: int) -> None:
        """Empties a slot; its memory goes back to the system. Raises NativeError."""
        error = ctypes.create_string_buffer(ERROR_SIZE)
        if LIBRARY.el_encoder_unload(self._open(), slot, error, ERROR_SIZE):
            raise NativeError(error.value.decode())

    def encode(
        self,
        token_ids: Sequence[NDArray[np.int32]],
        adapters: Sequence[Sequence[tuple[int, float]]],
        poolings: Sequence[Pooling],
    ) -> NDArray[np.float32]:
        """Runs whole texts: their tokens, their (slot, weight) pairs and their poolings.

        The weight multiplies the adapter's own scaling. Returns [texts, hidden_size] float32,
        vectors not normalised; one whose values left the finite numbers is all NaN. Raises
        NativeError when the batch does not fit; then nothing ran.
        """
        # Buffers of the standard library: a tenth of the cost of numpy for a few numbers each.
        tokens, slots, weights, kinds = array("i"), array("i"), array("f"), array("i")
        token_offsets, adapter_offsets = array("i", [0]), array("i", [0])
        for ids, pairs, pooling in zip(token_ids, adapters, poolings, strict=True):
            tokens.frombytes(np.asarray(ids, dtype=np.int32).tobytes())
            token_offsets.append(len(tokens))
            for slot, weight in pairs:
                slots.append(slot)
                weights.append(weight)
            adapter_offsets.append(len(slots))
            kinds.append(POOLINGS.index(pooling))
        arrays = (tokens, token_offsets, slots, weights, adapter_offsets, kinds)
        texts = _Texts(len(kinds), *(each.buffer_info()[0] for each in arrays))
        vectors = np.empty((len(kinds), self.description.hidden_size), dtype=np.float32)
        status = LIBRARY.el_encode(
            self._open(), ctypes.byref(texts), vectors.ctypes.data, self._error, ERROR_SIZE
        )
        if status != 0:
            raise NativeError(self._error.value.decode())
        return vectors

    def _open(self) -> int:
        if self._handle is None:
            raise NativeError("the encoder is closed")
        return int(self._handle)
