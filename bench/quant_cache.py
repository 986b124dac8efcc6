"""Names for what is kept from run to run: of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

_CODE = ("*.py", "*.so")
_LENGTH = 16


def fingerprint(*parts: object) -> str:
    """A short name of some plain values."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def code_digest(*places: Path) -> str:
    """Of the contents of modules, and of all in packages."""
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else [one for end in _CODE for one in place.rglob(end)]
        for file in sorted(files):
            data = file.read_bytes()
            digest.update(f"{file.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()
