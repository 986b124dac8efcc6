"""The native CPU core of EdgeLoRA.

`Engine` runs steps over ragged batches in which every row has its own LoRA adapters; `packing`
writes the one file it maps. `encoder.Encoder` turns whole texts into vectors, and
`encoder_packing` writes its file. None needs anything but numpy.
"""

from edgelora_native.engine import (
    BLOCK_TOKENS,
    MODULES,
    Chunk,
    Description,
    Engine,
    Limits,
    instruction_set,
)
from edgelora_native.factors import AdapterFactors, NativeError
from edgelora_native.sampling import MAX_TOP_LOGPROBS, ChosenToken, RowSampling

INTERFACE = 7
"""Grows with every change of what this package offers; its users ask for the one they know."""

__all__ = [
    "BLOCK_TOKENS",
    "INTERFACE",
    "MAX_TOP_LOGPROBS",
    "MODULES",
    "AdapterFactors",
    "ChosenToken",
    "Chunk",
    "Description",
    "Engine",
    "Limits",
    "NativeError",
    "RowSampling",
    "instruction_set",
]
