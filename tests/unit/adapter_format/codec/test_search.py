"""The search for the best string of indices, and the tables it is done with."""

import itertools

import numpy as np
import pytest

from edgelora.adapter_format.codec.codebook import Codebook, look_up, pack
from edgelora.adapter_format.codec.quantiser import codebook_of
from edgelora.adapter_format.codec.tables import TABLES
from edgelora.adapter_format.codec.trellis import search_indices


@pytest.mark.parametrize(("bits", "window"), [(1, 4), (1, 6), (2, 3), (2, 5), (2, 2)])
def test_no_other_string_is_closer(bits, window):
    draw = np.random.default_rng(bits + window)
    length = 8 // bits
    book = Codebook(bits, draw.integers(-127, 128, 1 << window).astype(np.int8))
    strings = np.array(list(itertools.product(range(1 << bits), repeat=length)), np.uint8)
    every = look_up(pack(strings << (window - bits), book), book).astype(np.float32)
    for _ in range(20):
        values = draw.normal(0, 60, (1, length)).astype(np.float32)
        windows = search_indices(values, book.table.astype(np.float32), bits)
        error = np.square(book.table[windows] - values).sum()
        assert error == pytest.approx(np.square(every - values).sum(axis=1).min(), rel=1e-5)


@pytest.mark.parametrize("bits", range(1, 9))
def test_windows_found_are_those_a_reader_finds(bits):
    book = codebook_of(bits)
    values = np.random.default_rng(bits).normal(0, 40, (600, 32)).astype(np.float32)
    windows = search_indices(values, book.table.astype(np.float32), bits)
    packed = pack(windows, book)
    assert packed.shape == (600, 32 * bits // 8)
    np.testing.assert_array_equal(look_up(packed, book), book.table[windows])


@pytest.mark.parametrize("bits", TABLES)
def test_tables_do_what_they_say(bits):
    table = TABLES[bits]
    book = codebook_of(bits)
    values = np.random.default_rng(7).standard_normal((500, 96), np.float32)
    windows = search_indices(values * np.float32(table.unit), book.table.astype(np.float32), bits)
    error = np.mean((book.table[windows] / table.unit - values) ** 2)
    assert error == pytest.approx(table.distortion, rel=0.05)
    assert np.abs(book.table.astype(int)).max() == 127


def test_windows_beat_the_best_tables_without():
    """Lloyd and Max: 0.3634, 0.1175, 0.03454, 0.009497, 0.002499 (IRE Trans. IT 6, 1960)."""
    without = {1: 0.3634, 2: 0.1175, 3: 0.03454, 4: 0.009497, 5: 0.002499}
    assert all(TABLES[bits].distortion < 0.85 * best for bits, best in without.items())
