"""The token flow, with a real registry that checks signatures and a token server of the test."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from edgelora.errors import PermissionDeniedError, ServiceUnavailableError
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.remotes_file import basic_authorization
from tests.support.adapter_packages import make_package, open_fetcher, web_remote
from tests.support.docker_registry import DockerRegistry
from tests.support.hostile_server import HostileServer, SeenRequest, reply
from tests.support.tls_certificate import Certificate, make_certificate

pytestmark = pytest.mark.integration
MAIL = parse_reference("garage/office/mail:v1")


def signed_token(certificate: Certificate, repository: str, actions: list[str]) -> str:
    """A JSON web token as the registry wants it: RS256, with the certificate inside."""
    pem = certificate.certificate.read_text()
    chain = "".join(line for line in pem.splitlines() if "-" not in line)
    now = int(time.time())
    claims = {
        "iss": "test",
        "sub": "car",
        "aud": "garage",
        "exp": now + 300,
        "nbf": now - 60,
        "iat": now,
        "jti": "1",
        "access": [{"type": "repository", "name": repository, "actions": actions}],
    }
    head = {"typ": "JWT", "alg": "RS256", "x5c": [chain]}
    text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
    signature = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(certificate.key)],
        input=text.encode(),
        capture_output=True,
        check=True,
    ).stdout
    return f"{text}.{_base64(signature)}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_a_token_is_fetched_once_and_asks_for_no_more_than_reading(tmp_path):
    certificate = make_certificate(tmp_path)
    package = make_package(tmp_path / "package")

    def give(request: SeenRequest) -> bytes:
        if request.headers.get("authorization") != basic_authorization("car", "secret"):
            return reply(401)
        query = parse_qs(urlsplit(request.path).query)
        _, repository, actions = query["scope"][0].split(":")
        token = signed_token(certificate, repository, actions.split(","))
        return reply(200, json.dumps({"token": token, "expires_in": 300}).encode())

    async with HostileServer(give) as tokens:
        server = DockerRegistry(
            tmp_path / "server",
            token={
                "realm": f"{tokens.url}/token",
                "service": "garage",
                "issuer": "test",
                "rootcertbundle": str(certificate.certificate),
            },
        )
        try:
            push = signed_token(certificate, "office/mail", ["pull", "push"])
            server.push(package.layout, "office/mail", "v1", f"Bearer {push}")
            (tmp_path / "password").write_text("secret")
            user = ('user = "car"', f'password_file = "{tmp_path}/password"')
            allowed = f'allowed_hosts = ["127.0.0.1:{tokens.port}"]'

            fetcher = open_fetcher(tmp_path, web_remote("registry", server.port, allowed, *user))
            fetched = await fetcher.fetch_package("office", MAIL)
            assert fetched.weights_path.read_bytes() == package.weights
            (request,) = tokens.requests
            assert parse_qs(urlsplit(request.path).query) == {
                "scope": ["repository:office/mail:pull"],
                "service": ["garage"],
            }
            await fetcher.aclose()

            # The password goes to no host that the registry alone names.
            fetcher = open_fetcher(tmp_path, web_remote("registry", server.port, *user))
            with pytest.raises(ServiceUnavailableError, match="did not allow"):
                await fetcher.fetch_package("office", MAIL)
            assert len(tokens.requests) == 1
            await fetcher.aclose()

            fetcher = open_fetcher(tmp_path, web_remote("registry", server.port, allowed))
            with pytest.raises(PermissionDeniedError):
                await fetcher.fetch_package("office", MAIL)
            await fetcher.aclose()
        finally:
            server.stop()
