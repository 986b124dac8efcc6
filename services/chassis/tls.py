"""Certificates of the doors, read again whenever their files change.

Every handshake looks at the files, so that a renewed certificate is used from the next connection
on; connections that are there stay. What can not be used (half written, a key of another
certificate) leaves the last good one in place.
"""

from __future__ import annotations

import ssl
import threading
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc

from services.chassis.logs import get_logger
from services.chassis.settings import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a server."""

    certificate: Path
    """Its certificate, and those between it and the root."""
    key: Path
    """Its private key, not encrypted."""
    client_ca: Path | None
    """Who signs the certificates of clients; None where clients have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Material:
    certificate: bytes
    key: bytes
    client_ca: bytes | None
    context: ssl.SSLContext


class ServerTls:
    """TLS of one server, version 1.2 or newer. Used from any thread."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads the files. Raises ConfigError when they can not be used."""
        self._files = files
        self._lock = threading.Lock()
        self._seen = self._signature()
        try:
            self._material = _load(files)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the TLS files can not be used: {_words(error)}") from None

    @property
    def has_client_ca(self) -> bool:
        """Whether clients may prove who they are by certificates."""
        return self._files.client_ca is not None

    def http_context(self) -> ssl.SSLContext:
        """A context for a server socket: a client may show a certificate, and then a valid one."""
        context = _bare_context(self._files)

        def choose(connection: ssl.SSLObject, _name: str | None, _context: object) -> None:
            connection.context = self._current().context

        # Called at every handshake, also where the client names no server.
        context.sni_callback = choose
        _fill(context, self._files)
        return context

    def grpc_credentials(self, *, is_mutual: bool) -> grpc.ServerCredentials:
        """Credentials of a port: `is_mutual` demands a valid certificate of every client."""
        given = self._current()

        def fetch() -> Any:
            nonlocal given
            current = self._current()
            if current is given:
                return None  # as it was
            given = current
            return _configuration(current, is_mutual=is_mutual)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(given, is_mutual=is_mutual),
            fetch,
            require_client_authentication=is_mutual,
        )

    def _current(self) -> _Material:
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                try:
                    material = _load(self._files)
                except (OSError, ValueError) as error:
                    get_logger().warning("tls_files_not_used", cause=_words(error))
                    self._seen = signature  # not looked at again before they change
                else:
                    if self._signature() == signature:  # nobody wrote while we read
                        self._material, self._seen = material, signature
                        get_logger().info("tls_files_read")
            return self._material

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        paths = (self._files.certificate, self._files.key, self._files.client_ca)
        return tuple(_file_signature(path) for path in paths if path is not None)


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _load(files: TlsFiles) -> _Material:
    context = _bare_context(files)
    _fill(context, files)
    return _Material(
        certificate=files.certificate.read_bytes(),
        key=files.key.read_bytes(),
        client_ca=None if files.client_ca is None else files.client_ca.read_bytes(),
        context=context,
    )


def _bare_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A resumed session shows no certificate again: there are none.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _fill(context: ssl.SSLContext, files: TlsFiles) -> None:
    context.load_cert_chain(files.certificate, files.key, password=_no_password)
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)


def _no_password() -> str:
    raise ValueError("the key is encrypted: give one that is not")


def _configuration(material: _Material, *, is_mutual: bool) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)],
        root_certificates=material.client_ca if is_mutual else None,
    )


def _words(error: OSError | ValueError) -> str:
    """What went wrong, without what a file holds."""
    if isinstance(error, ssl.SSLError):
        return (
            f"{error.reason or 'no PEM'}: check that certificate, key and client CA are PEM and "
            "belong together"
        )
    return str(error)


def peer_uris(auth_context: Any) -> tuple[str, ...]:
    """URI names of the certificate a gRPC client proved to have; none without one.

    A resumed connection proves none: the certificate may have ended since it was shown.
    """
    if auth_context.get("ssl_session_reused") == [b"true"]:
        return ()
    return tuple(uri.decode("utf-8", "replace") for uri in auth_context.get("peer_uri", ()))


def socket_uris(connection: ssl.SSLObject) -> tuple[str, ...]:
    """URI names of the certificate the peer of a TLS socket proved to have.

    None without one, on a resumed connection, and once the certificate has expired.
    """
    certificate: Any = None if connection.session_reused else connection.getpeercert()
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) <= time.time():
        return ()
    names = certificate.get("subjectAltName", ())
    return tuple(str(value) for kind, value in names if kind == "URI")


def warn_of_plain_addresses(*addresses: str) -> None:
    """Logs those of a server's addresses that a network reaches in clear text."""
    for address in addresses:
        host = address.rpartition(":")[0].strip("[]")
        if not address.startswith("unix:") and not _is_loopback(host):
            get_logger().warning("no_tls", address=address)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
