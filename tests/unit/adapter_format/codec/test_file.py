"""The file of docs/codec.md: read as another reader reads it, and refused when a rule is broken."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgelora.adapter_format.codec import VERSION, decode, encode, read_encoded_header
from edgelora.adapter_format.codec.layout import MODULES
from edgelora.errors import DataCorruptError
from tests.support.encoded_adapters import BASE_DIGEST, DIGEST, random_encoded, read_slowly
from tests.support.trained_weights import SHAPES, trained_weights

RANKS = {(0, "q_proj"): 3, (0, "k_proj"): 1, (2, "down_proj"): 5}
HEADER = 128

GOLDEN = bytes.fromhex(
    # magic, version; 1 module, 2 components, 3 codebooks; 220 bytes, 512 parameters
    "454447454c4f5251" "01000000" "01000000" "02000000" "03000000"
    "dc00000000000000" "0002000000000000"
    # rank 2 of 8, level 3.2, reserved, digests
    "02000000" "08000000" "40010000" "000000000000000000000000" + "ab" * 32 + "cd" * 32 +
    # layer 5, down_proj, rank 2, 32 in, 32 out, scaling 0.25
    "0500" "0600" "02000000" "20000000" "20000000" "0000803e"
    # 1.5 with 1 and 2 bits; 0.375 with 1 and 2 bits
    "003e" "01" "02" "0036" "01" "02"
    # A: 1 bit, window 3; A: 3 bits, window 3, which nothing uses; B: 2 bits, window 2
    "00010300" "00030300" "01020200"
    "81c0e0f00d203f7f" "0001020304050607" "9dfb0563"
    # A runs of 4 bytes, B runs of 8, tail
    "b1003fff" "80000001" "e4e4e4e4e4e4e4e4" "1b00000000000000" "0000000000000000"
)  # fmt: skip


def refusal(data: bytes) -> str:
    with pytest.raises(DataCorruptError) as caught:
        decode(data)
    assert caught.value.field == "encoded"
    return caught.value.message


def changed(data: bytes, at: int, kind: str, value) -> bytes:
    edited = bytearray(data)
    struct.pack_into(kind, edited, at, value)
    return bytes(edited)


def assert_equal_reading(data: bytes) -> None:
    expected = read_slowly(data)
    found = decode(data).pairs
    assert list(found) == list(expected)
    for key, (lora_a, lora_b, scaling) in expected.items():
        np.testing.assert_array_equal(found[key].lora_a, lora_a)
        np.testing.assert_array_equal(found[key].lora_b, lora_b)
        assert found[key].scaling == scaling


def test_version_1_stays_readable():
    assert VERSION == 1
    header = read_encoded_header(GOLDEN)
    assert (header.digest, header.base_digest) == (DIGEST, BASE_DIGEST)
    assert (header.rank, header.original_rank, header.level) == (2, 8, 3.2)
    assert header.bits_per_parameter == 8 * 220 / 512
    ((key, pair),) = decode(GOLDEN).pairs.items()
    assert key == (5, "down_proj")
    assert pair.scaling == 0.25
    # Bits 1000 1101 0000 0000 1111 ...: each value is its own bit times 4 and the two before it.
    table = [-127, -64, -32, -16, 13, 32, 63, 127]
    first = [4, 2, 1, 0, 4, 6, 3, 5, 2, 1, 0, 0, 0, 0, 0, 0, 4, 6, 7, 7]
    np.testing.assert_array_equal(
        pair.lora_a[0, :20], 1.5 * np.array([table[index] for index in first])
    )
    assert set(pair.lora_a[1, 10:24]) == {0.375 * -127}
    assert pair.lora_a[1, 24] == 0.375 * 13
    np.testing.assert_array_equal(pair.lora_b[:, 0], np.tile(np.array([-99, -5, 5, 99]) / 128, 8))
    np.testing.assert_array_equal(
        pair.lora_b[:, 1], np.concatenate([[99, 5, -5, -99], np.full(28, -99)]) / 128
    )
    assert_equal_reading(GOLDEN)


@pytest.mark.parametrize("seed", range(8))
def test_any_file_reads_as_another_reader_reads_it(seed):
    draw = np.random.default_rng(seed)
    ranks = {
        (int(draw.integers(4)), str(draw.choice(MODULES))): int(draw.integers(1, 20))
        for _ in range(6)
    }
    assert_equal_reading(random_encoded(ranks, SHAPES, seed))


@pytest.mark.parametrize("level", [3.2, 4.5, 8.0])
def test_what_is_encoded_reads_as_another_reader_reads_it(level):
    weights = trained_weights({(layer, module): 12 for layer in (0, 7) for module in SHAPES})
    assert_equal_reading(encode(weights, digest=DIGEST, base_digest=BASE_DIGEST, level=level))


def test_factors_are_what_a_slot_can_hold():
    weights = trained_weights({(0, "q_proj"): 16})
    pair = decode(encode(weights, digest=DIGEST, base_digest=BASE_DIGEST, level=4.5)).pairs[
        0, "q_proj"
    ]
    levels = pair.lora_b * 128
    np.testing.assert_array_equal(levels, np.rint(levels))
    assert np.abs(levels).max() <= 127
    assert np.log2(pair.scaling) == np.rint(np.log2(pair.scaling))
    assert np.isfinite(pair.lora_a.astype(np.float16)).all()


def test_modules_are_numbered_as_in_the_native_core():
    native = pytest.importorskip("edgelora_native", reason="the native core is not installed")
    assert native.MODULES == MODULES


MODULE, COMPONENT = HEADER, HEADER + 3 * 20
BOOK = COMPONENT + 9 * 4


@pytest.mark.parametrize(
    ("at", "kind", "value"),
    [
        (0, "8s", b"EDGELORA"),
        (8, "<I", 2),
        (12, "<I", 0),
        (12, "<I", 4),
        (12, "<I", 65_537),
        (16, "<I", 8),
        (16, "<I", 10),
        (16, "<I", 2**32 - 1),
        (20, "<I", 1),
        (20, "<I", 15),
        (20, "<I", 17),
        (24, "<Q", 2**63),
        (32, "<Q", 0),
        (40, "<I", 4),
        (40, "<I", 6),
        (44, "<I", 4),
        (44, "<I", 1025),
        (48, "<I", 300),
        (63, "B", 1),
        (MODULE + 2, "<H", 7),
        (MODULE + 2, "<H", 1),  # as the second
        (MODULE, "<H", 1),  # after the second
        (MODULE + 4, "<I", 0),
        (MODULE + 4, "<I", 4),
        (MODULE + 4, "<I", 1025),
        (MODULE + 8, "<I", 0),
        (MODULE + 8, "<I", 33),
        (MODULE + 8, "<I", 128),
        (MODULE + 8, "<I", (1 << 20) + 32),
        (MODULE + 12, "<I", 2**32 - 32),
        (MODULE + 12, "<I", 100),
        (MODULE + 16, "<f", 0.0),
        (MODULE + 16, "<f", -1.0),
        (MODULE + 16, "<f", float("inf")),
        (MODULE + 16, "<f", float("nan")),
        (COMPONENT, "<H", 0),
        (COMPONENT, "<H", 0x7C00),
        (COMPONENT, "<H", 0x7E00),
        (COMPONENT, "<H", 0x8001),
        (COMPONENT + 2, "B", 0),
        (COMPONENT + 2, "B", 9),
        (COMPONENT + 3, "B", 0),
        (COMPONENT + 3, "B", 255),
        (BOOK, "B", 2),
        (BOOK + 1, "B", 0),
        (BOOK + 1, "B", 2),  # as the second
        (BOOK + 15 * 4 + 1, "B", 9),
        (BOOK + 2, "B", 1),
        (BOOK + 2, "B", 9),
        (BOOK + 7 * 4 + 2, "B", 7),  # less than the 8 bits
        (BOOK + 3, "B", 1),
        (BOOK + 16 * 4, "b", -128),
        (-1, "B", 1),
        (-8, "B", 128),
    ],
)
def test_a_broken_rule_is_refused(at, kind, value):
    data = random_encoded(RANKS, SHAPES)
    broken = changed(data, at if at >= 0 else len(data) + at, kind, value)
    assert broken != data
    refusal(broken)


def test_a_component_without_a_codebook_is_refused():
    # Nothing uses the codebook of 3 bits; nobody may use one of 2.
    assert "no codebook" in refusal(changed(GOLDEN, HEADER + 22, "B", 2))


def test_a_file_is_refused_wherever_it_is_cut():
    for length in range(len(GOLDEN)):
        cut = GOLDEN[:length]
        refusal(cut)
        if length >= HEADER:
            refusal(changed(cut, 24, "<Q", length))
    refusal(GOLDEN + bytes(1))
    refusal(changed(GOLDEN + bytes(4), 24, "<Q", len(GOLDEN) + 4))


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_no_flipped_bytes_do_harm(data):
    """A changed file is refused, or its factors are finite and no more than it has bits for."""
    edited = bytearray(random_encoded(RANKS, SHAPES))
    # Most of it is payload, in which nothing can be wrong.
    top = data.draw(st.sampled_from([HEADER, BOOK + 64, len(edited)]))
    for _ in range(data.draw(st.integers(1, 4))):
        edited[data.draw(st.integers(0, top - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(edited)
    except DataCorruptError:
        return
    values = 0
    for pair in decoded.pairs.values():
        assert np.isfinite(pair.lora_a).all()
        assert np.isfinite(pair.lora_b).all()
        values += pair.lora_a.size + pair.lora_b.size
    assert values <= 8 * len(edited)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_do_harm(data, has_header):
    refusal(GOLDEN[:HEADER] + data if has_header and data != GOLDEN[HEADER:] else data)
