"""What the engine needs of an adapter's certificate."""

from __future__ import annotations

import json

import numpy as np

from edgelora.errors import DataCorruptError
from edgelora.v1.adapter_pb2 import AdapterCertificate
from services.inference.engine.fetched_adapter import CanaryReference


def to_reference(certificate: AdapterCertificate | None, vocab_size: int) -> CanaryReference | None:
    """The canary's reference, None where it was not measured.

    Raises DataCorruptError for tokens the model does not have and logits that are no numbers.
    """
    if certificate is None or not certificate.canary:
        return None
    token_ids = np.array([one.token_id for one in certificate.canary], dtype=np.intp)
    logits = np.array([one.logit for one in certificate.canary], dtype=np.float32)
    if token_ids.max() >= vocab_size or not np.isfinite(logits).all():
        raise DataCorruptError("the adapter's certificate is damaged: register it again")
    return CanaryReference(token_ids, logits)


def encoded_file_hash(certificate: AdapterCertificate | None) -> str:
    """The hex SHA-256 of the encoded file, which a file that is streamed has no name to tell.

    Raises DataCorruptError when the certificate does not say it.
    """
    try:
        found = json.loads(certificate.document if certificate else "")["encoding"]["sha256"]
    except (ValueError, LookupError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str):
        raise DataCorruptError(
            "the adapter's certificate does not name its file: register it again"
        )
    return found
