"""The shared library of the core."""

from __future__ import annotations

import ctypes
from pathlib import Path

LIBRARY = ctypes.CDLL(str(Path(__file__).parent / "libedgelora_native.so"))
ERROR: tuple[type[ctypes.c_char_p], type[ctypes.c_size_t]] = (ctypes.c_char_p, ctypes.c_size_t)
"""Types of the last two arguments of every call that can be refused: a text, and its room."""
