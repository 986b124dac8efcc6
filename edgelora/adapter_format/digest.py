"""The identity of an adapter: what it computes, not what it is called."""

from __future__ import annotations

import hashlib
import re

from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.tensor_file import Buffer

_DOMAIN = b"edgelora-adapter-1\x00"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def adapter_digest(config: AdapterConfig, weights: Buffer) -> str:
    """`sha256:` and 64 hex digits over the canonical config and the weights file."""
    return combine_digest(config.canonical_bytes(), hashlib.sha256(weights).digest())


def combine_digest(canonical_config: bytes, weights_sha256: bytes) -> str:
    """As `adapter_digest`, when the weights were hashed elsewhere, for example while written."""
    if len(weights_sha256) != hashlib.sha256().digest_size:
        raise ValueError("weights_sha256 has to be the 32 bytes of a SHA-256")
    config_sha256 = hashlib.sha256(canonical_config).digest()
    return "sha256:" + hashlib.sha256(_DOMAIN + config_sha256 + weights_sha256).hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None
