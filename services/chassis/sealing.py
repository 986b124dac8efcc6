"""Seals protobuf messages with HMAC-SHA256 (RFC 2104), so that services can trust each other's.

A seal covers the message type's full name, so a sealed claim can not stand for a sealed ticket.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from edgelora.errors import UnauthenticatedError
from edgelora.v1.ticket_pb2 import Sealed

MIN_KEY_BYTES = 32

MessageT = TypeVar("MessageT", bound=Message)


def boot_clock_s() -> float:
    """Seconds since boot, suspend included: one clock for all processes and containers of a node.

    Setting the wall clock does not move it, so leases and claims live exactly as long as stated.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sealer:
    """Seals and opens messages with the node's key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"the seal key must have at least {MIN_KEY_BYTES} bytes")
        self._key = key

    def seal(self, message: Message) -> Sealed:
        """Serialises and signs a message."""
        payload = message.SerializeToString(deterministic=True)
        signature = self._signature(message.DESCRIPTOR.full_name, payload)
        return Sealed(payload=payload, signature=signature)

    def open(self, sealed: Sealed, message_class: type[MessageT]) -> MessageT:
        """Returns the message inside.

        Raises UnauthenticatedError when the seal is not ours, or is another message type's.
        """
        expected = self._signature(message_class.DESCRIPTOR.full_name, sealed.payload)
        if not hmac.compare_digest(expected, sealed.signature):
            raise UnauthenticatedError("the call carries no valid seal of this node")
        message = message_class()
        try:
            message.ParseFromString(sealed.payload)
        except DecodeError as error:
            raise UnauthenticatedError("the sealed message can not be read") from error
        return message

    def _signature(self, type_name: str, payload: bytes) -> bytes:
        return hmac.digest(self._key, type_name.encode() + b"\0" + payload, hashlib.sha256)
