"""Reads the body of a call, up to its limits."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive

from edgelora.errors import CancelledRequestError, InvalidRequestError, MessageTooLargeError
from services.gateway.http.limits import HttpLimits

_FORMS = ("multipart/form-data",)


def check_announced(headers: Headers, limits: HttpLimits) -> None:
    """Refuses a body by what its headers say of it, before a byte of it is read.

    Raises MessageTooLargeError and InvalidRequestError.
    """
    length = headers.get("content-length")
    # h11 has refused what is no number.
    if length is not None and int(length) > limits.max_body_bytes:
        raise _too_large(limits)
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise InvalidRequestError(
            "content-encoding must be identity: send the body uncompressed",
            field="content-encoding",
        )
    if headers.get("content-type", "").strip().lower().startswith(_FORMS):
        raise InvalidRequestError(
            "content-type must be application/json: forms are not read", field="content-type"
        )


async def read_body(receive: Receive, limits: HttpLimits) -> bytes:
    """Returns the whole body.

    Raises MessageTooLargeError, InvalidRequestError when it takes too long, and
    CancelledRequestError when the client leaves before its end.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise CancelledRequestError("the client left before the end of its body")
                body += message.get("body", b"")
                if len(body) > limits.max_body_bytes:
                    raise _too_large(limits)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise InvalidRequestError(
            f"the body did not arrive within {limits.body_s:g} seconds: send it at once"
        ) from None


def _too_large(limits: HttpLimits) -> MessageTooLargeError:
    return MessageTooLargeError(f"the body may have at most {limits.max_body_bytes} bytes")
