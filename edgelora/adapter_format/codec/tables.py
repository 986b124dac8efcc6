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


TABLES: dict[int, Table] = {
    1: Table(
        unit=62.5771,
        distortion=0.305,
        levels=bytes.fromhex(
            "d0eb2c89b710b51515be06b5b71eebea07bece26be1816b0d42ba314298addea1a4552de0663e448"
            "57e44af8e739f81431e5f045eb2a54ebdc2bef4b7fd62a3d"
        ),
    ),
    2: Table(
        unit=51.8241,
        distortion=0.0901,
        levels=bytes.fromhex(
            "a6cdf1a8bdf08eccdc81b5e4cc96ecbcdbf71ed2f02ac901feb2de09fdc720f1092e4cfa033de210"
            "1fdb072e33ec092f4610742b2c6f12424c0b325b6718437c"
        ),
    ),
    3: Table(
        unit=44.8145,
        distortion=0.0254,
        levels=bytes.fromhex(
            "b79dc181a6c591aed8c7e2b4cfe3b9d0f0dbf6cee5f6d5e903ed08dcf70ae6fc14fe1df1081ef80e"
            "271230051a2f0a233c2849192f491e385f4a70395a7c3c5c"
        ),
    ),
    4: Table(
        unit=38.3721,
        distortion=0.00644,
        levels=bytes.fromhex(
            "9b87baa8e0d6efe801f90f08231a372bb9afd0c5e9e0f8f0090018102d244135cbc1dcd4f1e800f8"
            "100921173c315347d6cbe6dff9f1080019112b205b497f68"
        ),
    ),
    5: Table(
        unit=37.4347,
        distortion=0.0019,
        levels=bytes.fromhex(
            "9581b8b2c9c5d6d3e1ddebe6f4effcf804000c0815111e1a28243430443f6056aba1c2bdd0ccdcd8"
            "e6e2efebf8f300fc0804110c1a15231f2e2a3b374f497f6b"
        ),
    ),
    6: Table(
        unit=33.1805,
        distortion=0.000513,
        levels=bytes.fromhex(
            "9281aea9bcb9c6c3cdcbd3d2d9d7dddce2e0e7e5ebe9efedf3f1f7f5faf9fefc0200060409070d0b"
            "110f151319171d1b222027252c2a32303937423f4f4b645da39cb6b2c1becac7d0ced6d5dbdae0de"
            "e5e3e9e7edebf1eff5f3f9f7fcfa00fe040208060b090f0d131117151b191f1d242229272f2d3533"
            "3d3b484558537b6e"
        ),
    ),
    7: Table(
        unit=27.3135,
        distortion=0.000195,
        levels=bytes.fromhex(
            "8c98a0a6aaafb3b6b9bbbec0c3c5c7c9cacccecfd1d2d4d5d7d8d9dbdcdddedfe1e2e3e4e5e6e7e8"
            "e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff00010102030405060708090a0b0c0d0e0f"
            "0f1011121415161718191a1b1c1d1e2021222324262728292b2c2d2f3132343637393b3e40424548"
            "4a4d51565c626a7f"
        ),
    ),
}
"""By bits."""
