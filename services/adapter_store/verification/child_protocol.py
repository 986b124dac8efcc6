"""The child's end of the pipes: orders from standard input, an answer to standard output.

An answer is its length in 8 bytes, little-endian, then JSON, then whatever bytes go with it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, NoReturn, TypeVar

from services.adapter_store.verification.certificate import read_record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

LENGTH_BYTES = 8


def read_orders(record: type[T]) -> T:
    """Reads standard input to its end."""
    return read_record(record, json.loads(sys.stdin.buffer.read()))


def encode(record: DataclassInstance) -> bytes:
    """A record as JSON."""
    return json.dumps(asdict(record), allow_nan=False).encode()


def answer_and_exit(answer: DataclassInstance, payload: bytes = b"") -> NoReturn:
    """Writes the answer and ends the process."""
    text = encode(answer)
    for data in (len(text).to_bytes(LENGTH_BYTES, "little"), text, payload):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
    # Tearing down the interpreter would raise audit events for nothing.
    os._exit(0)
