"""An interpreter of classic BPF, as far as seccomp filters use it."""

from __future__ import annotations

import struct

ALLOW = 0x7FFF0000
KILL = 0x80000000


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What a filter returns for a system call."""
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *values)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        elif code == 0x45:
            at += if_true if accumulator & operand else if_false
        elif code == 0x06:
            return int(operand)
        else:
            raise AssertionError(f"unknown instruction {code:#x}")
