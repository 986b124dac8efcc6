"""Page tokens of a listing: where the last page ended, as opaque text. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import struct

from edgelora.adapter_format import is_digest
from edgelora.errors import InvalidRequestError
from services.adapter_store.registry.page_position import PagePosition

MAX_PAGE_SIZE = 1000
_TIME = struct.Struct(">d")


def page_size(asked: int) -> int:
    """The size of a page that was asked for; 0 asks for the largest.

    Raises InvalidRequestError when it is larger.
    """
    if asked > MAX_PAGE_SIZE:
        raise InvalidRequestError(f"a page has at most {MAX_PAGE_SIZE} adapters", field="page_size")
    return asked or MAX_PAGE_SIZE


def encode_token(position: PagePosition) -> str:
    """The token of the page that follows a position."""
    packed = _TIME.pack(position.registered_at_s) + position.digest.encode("ascii")
    return base64.urlsafe_b64encode(packed).decode("ascii")


def decode_token(token: str) -> PagePosition | None:
    """The position a token stands for; None for the first page.

    Raises InvalidRequestError for anything `encode_token` would not have made.
    """
    if not token:
        return None
    try:
        packed = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        (registered_at_s,) = _TIME.unpack(packed[: _TIME.size])
        digest = packed[_TIME.size :].decode("ascii")
    except (ValueError, binascii.Error, struct.error):
        raise _malformed() from None
    if not math.isfinite(registered_at_s) or not is_digest(digest):
        raise _malformed()
    return PagePosition(registered_at_s, digest)


def _malformed() -> InvalidRequestError:
    return InvalidRequestError(
        "the page token is malformed: give the last response's, or none for the first page",
        field="page_token",
    )
