"""JSON as browsers take it: what is not a number is unknown."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(document: Any) -> str:
    """One line of JSON. NaN and infinities, which JSON has no word for, become null."""
    try:
        return _dumps(document)
    except ValueError:
        return _dumps(_finite(document))


def _dumps(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
