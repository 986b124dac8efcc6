"""TLS on both doors, certificates as identities, and certificates that are renewed meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import socket
import ssl
from contextlib import AsyncExitStack, suppress

import pytest

from edgelora.client import EdgeLoraClient
from edgelora.errors import (
    EdgeLoraError,
    InvalidRequestError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from edgelora.generation import Delta, Done
from tests.support.certificate_authority import CertificateAuthority
from tests.support.free_port import free_port

pytestmark = pytest.mark.integration
SPIFFE_ID = "spiffe://home/tenant/acme"


class TlsDoors:
    """A gateway with TLS, and clients of every kind."""

    def __init__(self, bench, stack: AsyncExitStack) -> None:
        self.bench = bench
        self._stack = stack
        self.ca = CertificateAuthority(bench.directory)
        self.files = self.ca.server()
        self.address = f"127.0.0.1:{free_port()}"
        self.mutual_address = f"127.0.0.1:{free_port()}"

    async def start(self, **settings) -> None:
        await self.bench.start_store()
        await self.bench.start_worker()
        self.bench.start_scheduler()
        await self.bench.start_gateway_behind_tls(
            ADDRESS=self.address,
            MUTUAL_TLS_ADDRESS=self.mutual_address,
            TLS_CERT_FILE=str(self.files.certificate),
            TLS_KEY_FILE=str(self.files.key),
            TLS_CLIENT_CA_FILE=str(self.ca.file),
            **settings,
        )

    async def tenant(self, tenant_id: str, **fields) -> str:
        admin = await self.bench.admin()
        return (await admin.create_tenant(tenant_id, **fields)).api_key

    async def client(self, api_key=None, certificate=None, *, is_mutual=False, ca_file=None):
        client = EdgeLoraClient(
            self.mutual_address if is_mutual else self.address,
            api_key,
            ca_file=ca_file or self.ca.file,
            cert_file=certificate.certificate if certificate else None,
            key_file=certificate.key if certificate else None,
        )
        return await self._stack.enter_async_context(client)

    async def who(self, certificate=None, api_key=None) -> str:
        """The tenant behind mutual TLS."""
        client = await self.client(api_key, certificate, is_mutual=True)
        return (await client.status()).usage.tenant_id

    def http_connection(self, certificate=None, **versions) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.ca.file))
        for name, value in versions.items():
            setattr(context, name, value)
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.bench.http_port, context=context, timeout=20
        )

    async def http_status(self, api_key=None, certificate=None, connection=None) -> int:
        def ask() -> int:
            call = connection or self.http_connection(certificate)
            headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
            call.request("GET", "/v1/models", headers=headers)
            answer = call.getresponse()
            answer.read()
            if connection is None:
                call.close()
            return answer.status

        return await asyncio.to_thread(ask)


@pytest.fixture
async def closed_doors(bench):
    async with AsyncExitStack() as stack:
        yield TlsDoors(bench, stack)


@pytest.fixture
async def doors(closed_doors):
    await closed_doors.start()
    return closed_doors


async def test_keys_work_over_tls_and_nothing_works_in_clear_text(doors):
    key = await doors.tenant("acme")
    client = await doors.client(key)
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)
    assert await doors.http_status(key) == 200
    assert await doors.http_status("el_acme_" + "0" * 64) == 401
    async with EdgeLoraClient(doors.address, key) as plain:
        with pytest.raises(ServiceUnavailableError):
            await plain.status()

    def ask_in_clear_text() -> bytes:
        with socket.create_connection(("127.0.0.1", doors.bench.http_port), timeout=20) as call:
            call.sendall(
                b"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\n\r\n"
                % key.encode()
            )
            return call.recv(100)

    try:
        answer = await asyncio.to_thread(ask_in_clear_text)
    except ConnectionResetError:
        answer = b""
    assert not answer.startswith(b"HTTP")


async def test_a_node_that_somebody_else_signed_is_not_spoken_to(doors):
    key = await doors.tenant("acme")
    stranger = CertificateAuthority(doors.bench.directory, "stranger")
    client = await doors.client(key, ca_file=stranger.file)
    with pytest.raises(ServiceUnavailableError):
        await client.status()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_tls_before_1_2_is_refused_by_both_doors(doors, version):
    await doors.tenant("acme")
    for port in (doors.bench.http_port, int(doors.address.rpartition(":")[2])):
        context = ssl.create_default_context(cafile=str(doors.ca.file))
        with pytest.warns(DeprecationWarning):
            context.minimum_version = version
            context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")

        def shake_hands(port=port, context=context) -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as call:
                context.wrap_socket(call, server_hostname="127.0.0.1").close()

        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.to_thread(shake_hands)


async def test_a_certificate_stands_for_a_key_on_both_doors(doors):
    await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    await doors.tenant("other", spiffe_id="spiffe://home/tenant/other")
    acme = doors.ca.client("acme", SPIFFE_ID)
    assert await doors.who(acme) == "acme"
    assert await doors.http_status(certificate=acme) == 200
    client = await doors.client(certificate=acme, is_mutual=True)
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)
    assert await doors.who(doors.ca.client("other", "spiffe://home/tenant/other")) == "other"


@pytest.mark.parametrize(
    "uris",
    [
        ("spiffe://home/tenant/nobody",),
        ("spiffe://elsewhere/tenant/acme",),
        ("spiffe://home/tenant/acme/",),
        ("spiffe://home/tenant/ACME",),
        ("spiffe://HOME/tenant/acme",),
        ("https://home/tenant/acme",),
        (SPIFFE_ID, "spiffe://home/tenant/other"),
        (SPIFFE_ID, SPIFFE_ID),
        ("https://example.org", SPIFFE_ID),
        (),
    ],
)
async def test_other_certificates_of_the_right_authority_are_nobody_T39(doors, uris):
    key = await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    certificate = doors.ca.client("stranger", *uris, dns=("x",))
    with pytest.raises(UnauthenticatedError) as caught:
        await doors.who(certificate)
    assert "acme" not in str(caught.value)
    assert await doors.http_status(certificate=certificate) == 401
    # Beside a key it must not say otherwise; one that says nothing does not.
    if uris:
        with pytest.raises(UnauthenticatedError):
            await doors.who(certificate, key)
        assert await doors.http_status(key, certificate) == 401
    else:
        assert await doors.who(certificate, key) == "acme"
        assert await doors.http_status(key, certificate) == 200


async def test_a_dns_name_that_looks_like_a_spiffe_id_is_none(doors):
    await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    certificate = doors.ca.client("dns", dns=(SPIFFE_ID,))
    with pytest.raises(UnauthenticatedError):
        await doors.who(certificate)
    assert await doors.http_status(certificate=certificate) == 401


async def test_a_call_has_one_identity(doors):
    key = await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    other_key = await doors.tenant("other")
    acme = doors.ca.client("acme", SPIFFE_ID)
    assert await doors.who(acme, key) == "acme"
    assert await doors.http_status(key, acme) == 200
    for wrong in (other_key, "el_acme_" + "0" * 64, "junk"):
        with pytest.raises(UnauthenticatedError):
            await doors.who(acme, wrong)
        assert await doors.http_status(wrong, acme) == 401


async def test_certificates_of_others_expired_or_of_servers_open_nothing(doors):
    await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    stranger = CertificateAuthority(doors.bench.directory, "stranger")
    for certificate in (
        stranger.client("forged", SPIFFE_ID),
        doors.ca.client("expired", SPIFFE_ID, days=-1),
        doors.ca.server("as-client", common_name=SPIFFE_ID),
    ):
        with pytest.raises(EdgeLoraError) as caught:
            await doors.who(certificate)
        assert caught.value.code in ("UNAVAILABLE", "UNAUTHENTICATED")
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            assert await doors.http_status(certificate=certificate) == 401
            raise ConnectionError  # an answer of nobody is as good as none


async def test_without_a_certificate_the_mutual_door_stays_shut(doors):
    key = await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    client = await doors.client(key, is_mutual=True)
    with pytest.raises(ServiceUnavailableError):
        await client.status()


async def test_revoking_ends_a_certificates_calls_and_streams(doors):
    await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    acme = doors.ca.client("acme", SPIFFE_ID)
    client = await doors.client(certificate=acme, is_mutual=True)
    doors.bench.worker.script = None  # talks for ever
    events = client.generate("Hi")
    while not isinstance(await anext(events), Delta):
        pass
    admin = await doors.bench.admin()
    await admin.update_tenant("acme", spiffe_id="")
    with pytest.raises(UnauthenticatedError):
        async for _ in events:
            pass
    with pytest.raises(UnauthenticatedError):
        await client.status()
    assert await doors.http_status(certificate=acme) == 401
    await admin.update_tenant("acme", spiffe_id=SPIFFE_ID)
    assert await doors.who(acme) == "acme"
    await admin.revoke_tenant("acme")
    with pytest.raises(UnauthenticatedError):
        await client.status()


async def test_handshakes_that_do_not_come_are_bounded_F23(closed_doors):
    """A connection is one from its first moment on: before TLS is spoken it costs as much."""
    doors = closed_doors
    await doors.start(HTTP_MAX_CONNECTIONS_PER_PEER="4", HTTP_HEAD_TIMEOUT="300s")
    key = await doors.tenant("acme")
    assert await doors.http_status(key) == 200
    silent = [await asyncio.open_connection("127.0.0.1", doors.bench.http_port) for _ in range(4)]
    more, more_writer = await asyncio.open_connection("127.0.0.1", doors.bench.http_port)
    assert await more.read() == b""
    more_writer.close()
    for _, writer in silent:
        writer.close()
        await writer.wait_closed()
    while True:  # who leaves makes room
        with suppress(OSError):
            assert await doors.http_status(key) == 200
            break


async def test_a_handshake_that_takes_too_long_ends_F23(closed_doors):
    await closed_doors.start(HTTP_HEAD_TIMEOUT="300ms")
    reader, writer = await asyncio.open_connection("127.0.0.1", closed_doors.bench.http_port)
    assert await reader.read() == b""
    writer.close()


def subject(port: int, ca_file) -> str:
    """The common name of the certificate a server shows to a new connection."""
    context = ssl.create_default_context(cafile=str(ca_file))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as call,
        context.wrap_socket(call, server_hostname="127.0.0.1") as connection,
    ):
        return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]


async def test_renewed_certificates_are_used_and_no_connection_is_dropped(doors):
    key = await doors.tenant("acme")
    ports = (doors.bench.http_port, int(doors.address.rpartition(":")[2]))
    client = await doors.client(key)
    doors.bench.worker.hold_after = 1
    events = client.generate("Hi")
    while not isinstance(await anext(events), Delta):
        pass
    kept = doors.http_connection()
    assert await doors.http_status(key, connection=kept) == 200

    renewed = doors.ca.server("renewed", common_name="renewed")
    # Half of it: the certificate of another key. The last good pair stays in use.
    replace(renewed.certificate, doors.files.certificate)
    for port in ports:
        assert await asyncio.to_thread(subject, port, doors.ca.file) == "node"
    replace(renewed.key, doors.files.key)
    for port in ports:
        assert await asyncio.to_thread(subject, port, doors.ca.file) == "renewed"

    assert await doors.http_status(key, connection=kept) == 200
    kept.close()
    doors.bench.worker.go_on.set()
    assert isinstance([event async for event in events][-1], Done)


async def test_a_new_client_authority_takes_the_place_of_the_old_one(doors):
    await doors.tenant("acme", spiffe_id=SPIFFE_ID)
    old = doors.ca.client("old", SPIFFE_ID)
    assert await doors.who(old) == "acme"
    other = CertificateAuthority(doors.bench.directory, "other-ca")
    new = other.client("new", SPIFFE_ID)
    original = doors.bench.directory / "original.crt"
    shutil.copy(doors.ca.file, original)
    replace(other.file, doors.ca.file)
    doors.ca.file = original  # the node's own is signed by it still
    assert await doors.who(new) == "acme"
    assert await doors.http_status(certificate=new) == 200
    with pytest.raises(ServiceUnavailableError):
        await doors.who(old)
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        await doors.http_status(certificate=old)


def replace(source, target) -> None:
    """Puts a copy in the place of a file at once, as tools that renew do."""
    partial = target.with_suffix(".partial")
    shutil.copy(source, partial)
    os.replace(partial, target)


@pytest.mark.parametrize(
    ("files", "field"),
    [
        ({"ca_file": "/nowhere"}, "ca_file"),
        ({"ca_file": __file__}, "ca_file"),
        ({"cert_file": __file__, "key_file": __file__}, "ca_file"),
    ],
)
def test_client_files_that_can_not_be_used_are_named(files, field):
    with pytest.raises(InvalidRequestError) as caught:
        EdgeLoraClient("127.0.0.1:1", "k", **files)
    assert caught.value.field == field


def test_a_client_is_somebody():
    with pytest.raises(InvalidRequestError):
        EdgeLoraClient("127.0.0.1:1")
