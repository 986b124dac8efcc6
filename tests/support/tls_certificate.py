"""A key and a self-signed certificate, by the openssl program."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Files a server uses; clients trust the certificate itself."""

    certificate: Path
    key: Path


def make_certificate(directory: Path, name: str = "IP:127.0.0.1") -> Certificate:
    """Writes a certificate for one subject alternative name."""
    files = Certificate(directory / "tls.crt", directory / "tls.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
            *("-subj", "/CN=edgelora-test", "-addext", f"subjectAltName={name}"),
            *("-keyout", str(files.key), "-out", str(files.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return files
