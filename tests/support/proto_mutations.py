"""Wrong messages out of right ones: the same seed and index always make the same bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence

_VARINTS = (0, 1, 2, 127, 128, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_LENGTHS = (0, 1, 100, 70_000, 2**31, 2**63)


def mutated_message(seeds: Sequence[bytes], seed: str, index: int) -> bytes:
    """Message number `index`: one of the right ones, changed in one to five places."""
    chance = random.Random(f"{seed} {index}")
    data = chance.choice(seeds)
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 5))):
        data = _changed(data, seeds, chance)
    return data


def _changed(data: bytes, seeds: Sequence[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(10):
        case 0:
            return data[:at]
        case 1 | 2 if at < len(data):
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case 3:
            return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]
        case 4:
            end = min(len(data), at + chance.randrange(1, 30))
            return data[:at] + data[end:]
        case 5:
            end = min(len(data), at + chance.randrange(1, 30))
            return data[:end] + data[at:end] * chance.choice((1, 2, 300)) + data[end:]
        case 6:
            other = chance.choice(seeds)
            return data[:at] + other[chance.randrange(len(other) + 1) :]
        case 7:
            return data + _field(chance)
        case 8:
            return data + chance.choice(seeds)  # as protobuf merges messages
        case _:
            return data[:at] + _varint(chance.choice(_VARINTS)) + data[at + 1 :]


def _field(chance: random.Random) -> bytes:
    """A field of a small, a large or an unknown number, right or with a length that is a lie."""
    number = chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 500, 19_000, 2**29 - 1))
    match chance.randrange(5):
        case 0:
            return _varint(number << 3) + _varint(chance.choice(_VARINTS))
        case 1:
            return _varint(number << 3 | 1) + chance.randbytes(8)
        case 2:
            return _varint(number << 3 | 5) + chance.randbytes(4)
        case 3:
            text = chance.choice((b"", b"\0", b"\xff\xfe", b"a" * 200, b"\n\x02hi" * 50))
            length = chance.choice((len(text), len(text), *_LENGTHS))
            return _varint(number << 3 | 2) + _varint(length) + text
        case _:
            depth = chance.choice((1, 50, 5000))
            return _varint(number << 3 | 3) * depth  # groups that never end


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | 128 if value else low)
        if not value:
            return bytes(out)
