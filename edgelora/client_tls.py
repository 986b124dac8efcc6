"""What a client trusts, and what it shows of itself, over TLS."""

from __future__ import annotations

from pathlib import Path

import grpc

from edgelora.errors import InvalidRequestError


def channel_credentials(
    ca_file: Path | str | None, cert_file: Path | str | None, key_file: Path | str | None
) -> grpc.ChannelCredentials | None:
    """Credentials of a channel, from PEM files; None for plain text.

    `ca_file`: who signs the node's certificate. `cert_file` and `key_file`: the client's own,
    where a certificate says which tenant it is. Raises InvalidRequestError for a file that can not
    be read, and for files that only work with another one.
    """
    if cert_file is None and key_file is None and ca_file is None:
        return None
    if ca_file is None:
        raise InvalidRequestError(
            "a client certificate needs ca_file: who signs the node's certificate", field="ca_file"
        )
    if (cert_file is None) is not (key_file is None):
        raise InvalidRequestError("cert_file and key_file belong together", field="key_file")
    return grpc.ssl_channel_credentials(
        root_certificates=_read(ca_file, "ca_file"),
        private_key=_read(key_file, "key_file"),
        certificate_chain=_read(cert_file, "cert_file"),
    )


def _read(path: Path | str | None, field: str) -> bytes | None:
    if path is None:
        return None
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequestError(
            f"{field} can not be read: {error.strerror}", field=field
        ) from None
    if b"-----BEGIN " not in data:
        # gRPC would say that no node answers.
        raise InvalidRequestError(f"{field} is no PEM file", field=field)
    return data
