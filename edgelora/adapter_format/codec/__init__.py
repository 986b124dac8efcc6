"""The encoded form of an adapter: about 3.2, 4.5 or 8 bits for each parameter (docs/codec.md)."""

from edgelora.adapter_format.codec.decoder import decode
from edgelora.adapter_format.codec.encoder import encode
from edgelora.adapter_format.codec.header import EncodedHeader, read_encoded_header
from edgelora.adapter_format.codec.layout import HEADER_BYTES, LEVELS, VERSION

__all__ = [
    "HEADER_BYTES",
    "LEVELS",
    "VERSION",
    "EncodedHeader",
    "decode",
    "encode",
    "read_encoded_header",
]
