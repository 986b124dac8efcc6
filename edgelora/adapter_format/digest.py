"""The identity of an adapter: what it computes, not what it is called."""

from __future__ import annotations

import hashlib
import re

from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.head import HeadSettings
from edgelora.adapter_format.tensor_file import Buffer

_DOMAIN = b"edgelora-adapter-1\x00"
_DOMAIN_WITH_HEAD = b"edgelora-adapter-2\x00"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def adapter_digest(config: AdapterConfig, weights: Buffer, head: HeadSettings | None = None) -> str:
    """`sha256:` and 64 hex digits over the canonical config, the weights file and, where the
    adapter has a head.json, the canonical form of that."""
    canonical_head = None if head is None else head.canonical_bytes()
    return combine_digest(
        config.canonical_bytes(), hashlib.sha256(weights).digest(), canonical_head
    )


def combine_digest(
    canonical_config: bytes, weights_sha256: bytes, canonical_head: bytes | None = None
) -> str:
    """As `adapter_digest`, when the weights were hashed elsewhere, for example while written."""
    if len(weights_sha256) != hashlib.sha256().digest_size:
        raise ValueError("weights_sha256 has to be the 32 bytes of a SHA-256")
    parts = hashlib.sha256(canonical_config).digest() + weights_sha256
    if canonical_head is None:
        return "sha256:" + hashlib.sha256(_DOMAIN + parts).hexdigest()
    parts += hashlib.sha256(canonical_head).digest()
    return "sha256:" + hashlib.sha256(_DOMAIN_WITH_HEAD + parts).hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None
