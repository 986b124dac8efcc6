"""The files of TLS: what can not be used is told at the start, and never replaces what can."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from structlog.testing import capture_logs

from services.chassis.settings import ConfigError
from services.chassis.tls import ServerTls, TlsFiles, peer_uris, warn_of_plain_addresses
from tests.support.certificate_authority import CertificateAuthority


@pytest.fixture
def ca(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
def files(ca):
    server = ca.server()
    return TlsFiles(certificate=server.certificate, key=server.key, client_ca=ca.file)


def spoil(files: TlsFiles, how: str, ca: CertificateAuthority) -> None:
    match how:
        case "no certificate":
            files.certificate.unlink()
        case "no key":
            files.key.unlink()
        case "another key":
            shutil.copy(ca.server("other").key, files.key)
        case "an empty certificate":
            files.certificate.write_bytes(b"")
        case "half a certificate":
            files.certificate.write_bytes(files.certificate.read_bytes()[:200])
        case "an encrypted key":
            plain = files.key.with_suffix(".plain")
            files.key.rename(plain)
            subprocess.run(
                ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", plain, "-out", files.key],
                check=True,
                capture_output=True,
            )
        case "no client authority":
            files.client_ca.unlink()
        case "a client authority that is none":
            files.client_ca.write_text("nonsense")


SPOILT = [
    "no certificate",
    "no key",
    "another key",
    "an empty certificate",
    "half a certificate",
    "an encrypted key",
    "no client authority",
    "a client authority that is none",
]


@pytest.mark.parametrize("how", SPOILT)
def test_files_that_can_not_be_used_stop_the_start(files, ca, how):
    spoil(files, how, ca)
    with pytest.raises(ConfigError, match="the TLS files can not be used"):
        ServerTls(files)


@pytest.mark.parametrize("how", SPOILT)
def test_files_that_can_not_be_used_any_more_change_nothing(files, ca, how):
    tls = ServerTls(files)
    before = tls._current()
    spoil(files, how, ca)
    with capture_logs() as logs:
        assert tls._current() is before
        assert tls._current() is before
    assert [line["event"] for line in logs] == ["tls_files_not_used"]  # told once
    renewed = ca.server("renewed")
    shutil.copy(renewed.certificate, files.certificate)
    shutil.copy(renewed.key, files.key)
    ca.client("someone")
    shutil.copy(CertificateAuthority(files.key.parent, "next").file, files.client_ca)
    assert tls._current().certificate == renewed.certificate.read_bytes()


def test_files_that_did_not_change_are_read_once(files):
    tls = ServerTls(files)
    assert tls._current() is tls._current()


@pytest.mark.parametrize(
    ("address", "is_told"),
    [
        ("127.0.0.1:1", False),
        ("localhost:1", False),
        ("[::1]:1", False),
        ("127.8.8.8:1", False),
        ("unix:/run/x.sock", False),
        ("0.0.0.0:1", True),
        ("[::]:1", True),
        ("192.168.1.5:1", True),
        ("node.example:1", True),
    ],
)
def test_clear_text_on_a_network_is_told(address, is_told):
    with capture_logs() as logs:
        warn_of_plain_addresses(address)
    assert [line["address"] for line in logs] == ([address] if is_told else [])


def test_a_resumed_connection_proves_no_certificate():
    context = {"peer_uri": [b"spiffe://home/tenant/a"], "ssl_session_reused": [b"false"]}
    assert peer_uris(context) == ("spiffe://home/tenant/a",)
    assert peer_uris({**context, "ssl_session_reused": [b"true"]}) == ()
    assert peer_uris({}) == ()
    assert peer_uris({"peer_uri": [b"\xff"]}) != ("",)
