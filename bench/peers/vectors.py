"""Vectors in the lines between a peer and its parent: base64 of float32."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np


def pack_vectors(vectors: Any) -> dict[str, Any]:
    """For JSON. `vectors`: shape [texts, hidden_size]."""
    exact = np.ascontiguousarray(vectors, "<f4")
    return {"shape": list(exact.shape), "data": base64.b64encode(exact.tobytes()).decode("ascii")}


def unpack_vectors(packed: dict[str, Any]) -> Any:
    """The other way round."""
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])
