"""A certificate authority of a test's own, and what it and others may sign."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.tls_certificate import Certificate

_DAY = timedelta(days=1)


class CertificateAuthority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key, datetime.now(UTC))
        certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self._key, hashes.SHA256())
        self.file = directory / f"{name}.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str = "server", *, common_name: str = "node") -> Certificate:
        """A certificate of a server at 127.0.0.1 and localhost."""
        names = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
        ]
        return self._sign(name, common_name, names, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(
        self, name: str, *uris: str, days: float = 1.0, dns: tuple[str, ...] = ()
    ) -> Certificate:
        """A client's certificate with these URI names; one of less than no days has ended."""
        names = [
            *(x509.UniformResourceIdentifier(uri) for uri in uris),
            *(x509.DNSName(each) for each in dns),
        ]
        return self._sign(name, name, names, ExtendedKeyUsageOID.CLIENT_AUTH, days)

    def _sign(
        self,
        name: str,
        common_name: str,
        names: list[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        days: float = 1.0,
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(subject, self._name, key, datetime.now(UTC), days)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        files = Certificate(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: float = 1.0,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + days * _DAY)
    )
