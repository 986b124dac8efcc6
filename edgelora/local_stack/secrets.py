"""The stack's own secrets: random, one file each, closed to other users."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_NUM_BYTES = 32


def ensure_secret(path: Path) -> str:
    """Returns the secret in `path`, 64 hex digits; makes it at the first start."""
    if path.exists():
        path.chmod(0o600)
        return path.read_text(encoding="ascii").strip()
    secret = secrets.token_hex(_NUM_BYTES)
    write_secret(path, secret)
    return secret


def write_secret(path: Path, secret: str) -> None:
    """Writes a secret so that the file is never readable by others and never half there."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
