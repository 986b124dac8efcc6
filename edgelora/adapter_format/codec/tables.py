"""The tables an encoder uses for 1 to 7 bits; a file carries its own copy of each (docs/codec.md).

Trained on normal values by `python -m edgelora.toolchain.codec_tables`: singular vectors of
trained adapters look like them. Tables trained for each adapter, in the time there is, were worse.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of levels, and what it does to normal values of unit variance."""

    unit: float
    """The level that stands for 1."""
    distortion: float
    """Mean squared error."""
    levels: bytes
    """[2^window] signed bytes, looked up as docs/codec.md says."""


"""By bits."""
