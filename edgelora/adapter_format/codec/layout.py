"""Version 1 of the file, as docs/codec.md describes it: records, order of modules, limits."""

from __future__ import annotations

import numpy as np

MAGIC = b"EDGELORQ"
VERSION = 1
LEVELS = (3.2, 4.5, 8.0)
"""Bounds on the bits for one parameter of the original, everything included."""
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""By their number in the file, which is the native core's."""

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("modules", "<u4"),
        ("components", "<u4"),
        ("codebooks", "<u4"),
        ("file_bytes", "<u8"),
        ("parameters", "<u8"),
        ("rank", "<u4"),
        ("original_rank", "<u4"),
        ("level", "<u4"),
        ("reserved", "V12"),
        ("digest", "V32"),
        ("base_digest", "V32"),
    ]
)
MODULE = np.dtype(
    [
        ("layer", "<u2"),
        ("module", "<u2"),
        ("rank", "<u4"),
        ("in", "<u4"),
        ("out", "<u4"),
        ("scaling", "<f4"),
    ]
)
COMPONENT = np.dtype([("scale", "<f2"), ("bits_a", "u1"), ("bits_b", "u1")])
CODEBOOK = np.dtype([("factor", "u1"), ("bits", "u1"), ("window", "u1"), ("reserved", "u1")])

HEADER_BYTES = HEADER.itemsize
TAIL_BYTES = 8
MAX_MODULES = 65_536
MAX_RANK = 1024
MAX_FEATURES = 1 << 20
FEATURE_MULTIPLE = 32
MAX_BITS = 8
MIN_WINDOW, MAX_WINDOW = 2, 8
FACTOR_A, FACTOR_B = 0, 1
MAX_LEVEL = 127
B_SCALE = 1 / 128
"""What a level of factor B stands for."""
