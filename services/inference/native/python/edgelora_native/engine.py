"""The Python face of the C interface in include/edgelora_native.h.

Calls release the interpreter lock. An engine belongs to one thread at a time, but for
`load_adapter` and `load_encoded`, which another one may call beside it.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgelora_native.factors import ERROR_SIZE, AdapterFactors, NativeError, RawPair, RawPairs
from edgelora_native.library import ERROR, LIBRARY
from edgelora_native.sampling import ChosenToken, RawSampling, RowSampling, SamplingCall

BLOCK_TOKENS = 16
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Names of the adapted modules in the order of their numbers."""


class _Limits(ctypes.Structure):
    _fields_ = (
        ("num_kv_blocks", ctypes.c_int32),
        ("max_loras", ctypes.c_int32),
        ("max_lora_rank", ctypes.c_int32),
        ("max_step_tokens", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("kv_cache_int8", ctypes.c_int32),
    )


class _Description(ctypes.Structure):
    _fields_ = (
        ("vocab_size", ctypes.c_int32),
        ("hidden_size", ctypes.c_int32),
        ("num_layers", ctypes.c_int32),
        ("max_context_tokens", ctypes.c_int32),
        ("weights_bytes", ctypes.c_int64),
        ("kv_cache_bytes", ctypes.c_int64),
        ("adapter_slots_bytes", ctypes.c_int64),
    )


class _Batch(ctypes.Structure):
    _fields_ = (
        ("num_chunks", ctypes.c_int32),
        ("token_ids", ctypes.c_void_p),
        ("token_offsets", ctypes.c_void_p),
        ("start_positions", ctypes.c_void_p),
        ("block_tables", ctypes.c_void_p),
        ("block_offsets", ctypes.c_void_p),
        ("adapter_slots", ctypes.c_void_p),
        ("adapter_weights", ctypes.c_void_p),
        ("adapter_offsets", ctypes.c_void_p),
        ("needs_logits", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an engine allocates once."""

    num_kv_blocks: int
    """Blocks of `BLOCK_TOKENS` tokens."""
    max_loras: int
    max_lora_rank: int
    max_step_tokens: int
    """Most tokens of one step, prefill and decode together."""
    num_threads: int
    kv_cache_int8: bool = False
    """Keys and values in 8 bits, with a scale for each token and head, instead of float16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What an engine holds."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    max_context_tokens: int
    weights_bytes: int
    kv_cache_bytes: int
    adapter_slots_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The tokens of one sequence that run in a step."""

    token_ids: NDArray[np.int32]
    start_position: int
    block_table: Sequence[int]
    adapters: Sequence[tuple[int, float]]
    """(slot, weight) pairs; the weight multiplies the adapter's own scaling."""
    needs_logits: bool


class ChunkLike(Protocol):
    """What `forward` reads of a chunk; see Chunk."""

    @property
    def token_ids(self) -> NDArray[np.int32]: ...
    @property
    def start_position(self) -> int: ...
    @property
    def block_table(self) -> Sequence[int]: ...
    @property
    def adapters(self) -> Sequence[tuple[int, float]]: ...
    @property
    def needs_logits(self) -> bool: ...


LIBRARY.el_instruction_set.argtypes = [*ERROR]
LIBRARY.el_instruction_set.restype = ctypes.c_char_p
LIBRARY.el_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Limits), *ERROR]
LIBRARY.el_open.restype = ctypes.c_void_p
LIBRARY.el_close.argtypes = [ctypes.c_void_p]
LIBRARY.el_close.restype = None
LIBRARY.el_describe.argtypes = [ctypes.c_void_p]
LIBRARY.el_describe.restype = _Description
LIBRARY.el_load_adapter.argtypes = [
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.POINTER(RawPair),
    ctypes.c_int32,
    *ERROR,
]
LIBRARY.el_load_adapter.restype = ctypes.c_int64
LIBRARY.el_load_encoded.argtypes = [
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_size_t,
    *ERROR,
]
LIBRARY.el_load_encoded.restype = ctypes.c_int64
LIBRARY.el_unload_adapter.argtypes = [
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_int32,
    *ERROR,
]
LIBRARY.el_forward.argtypes = [
    ctypes.c_void_p,
    ctypes.POINTER(_Batch),
    ctypes.c_void_p,
    *ERROR,
]
LIBRARY.el_set_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, *ERROR]
LIBRARY.el_sample.argtypes = [ctypes.c_void_p, ctypes.POINTER(RawSampling), *ERROR]


def instruction_set() -> str:
    """Returns the instruction set in use. Raises NativeError for an EDGELORA_ISA it can not do."""
    error = ctypes.create_string_buffer(ERROR_SIZE)
    name: bytes | None = LIBRARY.el_instruction_set(error, ERROR_SIZE)
    if name is None:
        raise NativeError(error.value.decode())
    return name.decode()


class Engine:
    """One mapped model with its KV cache and adapter slots."""

    def __init__(self, packed_file: Path, limits: Limits) -> None:
        """Maps the file and allocates everything. Raises NativeError."""
        self._error = ctypes.create_string_buffer(ERROR_SIZE)
        self._handle = LIBRARY.el_open(
            os.fsencode(packed_file),
            ctypes.byref(
                _Limits(
                    limits.num_kv_blocks,
                    limits.max_loras,
                    limits.max_lora_rank,
                    limits.max_step_tokens,
                    limits.num_threads,
                    limits.kv_cache_int8,
                )
            ),
            self._error,
            ERROR_SIZE,
        )
        if self._handle is None:
            raise NativeError(self._error.value.decode())
        raw = LIBRARY.el_describe(self._handle)
        self.description = Description(
            **{name: getattr(raw, name) for name, _ in _Description._fields_}
        )

    def close(self) -> None:
        """Frees everything; the engine can not be used any more."""
        handle, self._handle = self._handle, None
        if handle is not None:
            LIBRARY.el_close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def load_adapter(self, slot: int, factors: Sequence[AdapterFactors]) -> int:
        """Writes an adapter into an empty slot and returns the bytes it holds there.

        Raises NativeError; then the slot is as before.
        """
        pairs = RawPairs(factors, MODULES)
        # Not the buffer of the thread that runs the steps.
        error = ctypes.create_string_buffer(ERROR_SIZE)
        num_bytes: int = LIBRARY.el_load_adapter(
            self._open(), slot, pairs.raw, len(factors), error, ERROR_SIZE
        )
        if num_bytes < 0:
            raise NativeError(error.value.decode())
        return num_bytes

    def load_encoded(self, slot: int, data: bytes | bytearray | memoryview | mmap) -> int:
        """Decodes a file in the form of docs/codec.md straight into an empty slot.

        Returns the bytes it holds there. Raises NativeError; then the slot is as before.
        """
        view = np.frombuffer(data, dtype=np.uint8)
        error = ctypes.create_string_buffer(ERROR_SIZE)
        num_bytes: int = LIBRARY.el_load_encoded(
            self._open(), slot, view.ctypes.data, view.size, error, ERROR_SIZE
        )
        if num_bytes < 0:
            raise NativeError(error.value.decode())
        return num_bytes

    def unload_adapter(self, slot: int, *, keep_pages: bool = False) -> None:
        """Empties a slot; its memory goes back to the system, or stays for the next load."""
        error = ctypes.create_string_buffer(ERROR_SIZE)
        if LIBRARY.el_unload_adapter(self._open(), slot, keep_pages, error, ERROR_SIZE):
            raise NativeError(error.value.decode())

    def forward(self, chunks: Sequence[ChunkLike]) -> NDArray[np.float32]:
        """Runs one step.

        Returns logits, shape [chunks with needs_logits, vocab_size]. A row whose values left the
        finite numbers is all NaN. Raises NativeError when the batch does not fit; then nothing ran.
        """
        # Buffers of the standard library: a tenth of the cost of numpy for a few numbers each.
        tokens, starts, tables, slots = array("i"), array("i"), array("i"), array("i")
        token_offsets, table_offsets, adapter_offsets = (
            array("i", [0]),
            array("i", [0]),
            array("i", [0]),
        )
        weights, needs_logits = array("f"), array("B")
        for chunk in chunks:
            tokens.frombytes(np.asarray(chunk.token_ids, dtype=np.int32).tobytes())
            token_offsets.append(len(tokens))
            starts.append(chunk.start_position)
            tables.extend(chunk.block_table)
            table_offsets.append(len(tables))
            for slot, weight in chunk.adapters:
                slots.append(slot)
                weights.append(weight)
            adapter_offsets.append(len(slots))
            needs_logits.append(chunk.needs_logits)
        arrays = (
            tokens,
            token_offsets,
            starts,
            tables,
            table_offsets,
            slots,
            weights,
            adapter_offsets,
            needs_logits,
        )
        batch = _Batch(len(chunks), *(each.buffer_info()[0] for each in arrays))
        logits = np.empty((sum(needs_logits), self.description.vocab_size), dtype=np.float32)
        self._check(
            LIBRARY.el_forward(
                self._open(), ctypes.byref(batch), logits.ctypes.data, self._error, ERROR_SIZE
            )
        )
        return logits

    def set_threads(self, count: int) -> None:
        """Computes with so many of its threads from the next step on; the others sleep.

        Any number gives the same bits. Raises NativeError when it is not 1 to the limit's.
        """
        self._check(LIBRARY.el_set_threads(self._open(), count, self._error, ERROR_SIZE))

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        """Chooses a token from each row of `logits`, [rows, tokens] float32, which stay unchanged.

        A row's result depends on nothing but the row and its settings; None for one that holds
        what is not finite, or whose mask is empty. Raises NativeError for settings out of range,
        ValueError for arrays of another kind.
        """
        if len(rows) == 0:
            return []
        call = SamplingCall(logits, rows)
        self._check(
            LIBRARY.el_sample(self._open(), ctypes.byref(call.raw), self._error, ERROR_SIZE)
        )
        return call.chosen()

    def _open(self) -> int:
        if self._handle is None:
            raise NativeError("the engine is closed")
        return int(self._handle)

    def _check(self, status: int) -> None:
        if status != 0:
            raise NativeError(self._error.value.decode())
