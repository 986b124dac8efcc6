"""F16, T07, T31: answers that are wrong on purpose. Each ends in one clear error and no package."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from edgelora.errors import (
    AdapterRejectedError,
    DataCorruptError,
    NotFoundError,
    ServiceUnavailableError,
)
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.try_book import RetryPolicy
from tests.support.adapter_packages import (
    MAX_WEIGHTS_BYTES,
    SamplePackage,
    exposed_packages,
    make_package,
    open_fetcher,
    partial_files,
    web_remote,
)
from tests.support.fake_clock import FakeClock
from tests.support.hostile_server import Answer, HostileServer, SeenRequest, reply

pytestmark = pytest.mark.integration
MAIL = parse_reference("garage/mail")
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> SamplePackage:
    return make_package(tmp_path_factory.mktemp("package"), weights_bytes=300_000)


def honest(package: SamplePackage, request: SeenRequest) -> bytes:
    """What a server of the layout answers."""
    return reply(200, (package.layout / request.path.removeprefix("/mail/")).read_bytes())


def is_weights(package: SamplePackage, request: SeenRequest) -> bool:
    """Whether a request is for the weights' blob."""
    path = package.layout / request.path.removeprefix("/mail/")
    return path.is_file() and path.stat().st_size == len(package.weights)


async def refusal(tmp_path, server, expected, **more) -> Exception:
    """What the tenant gets; nothing may have become visible."""
    fetcher = open_fetcher(tmp_path, web_remote("http", server.port), **more)
    with pytest.raises(expected) as caught:
        await fetcher.fetch_package("office", MAIL)
    assert exposed_packages(tmp_path) == []
    await fetcher.aclose()
    return caught.value


async def endless() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n"
    for _ in itertools.count():
        yield b"10000\r\n" + bytes(0x10000) + b"\r\n"


WRONG_BYTES = {
    "another digest": lambda data: reply(200, bytes(len(data))),
    "one byte short": lambda data: reply(200, data[:-1]),
    "one byte long": lambda data: reply(200, data + b"\0"),
    "nothing": lambda data: reply(200, b""),
    "a Git LFS pointer": lambda data: reply(200, POINTER),
    "a JSON error page": lambda data: reply(200, b'{"error": "not found"}'),
    "endless": lambda data: endless(),
}


@pytest.mark.parametrize("fault", WRONG_BYTES)
async def test_A16_weights_of_wrong_length_or_hash_fail_with_checksum(tmp_path, package, fault):
    def answer(request: SeenRequest) -> bytes | AsyncIterator[bytes]:
        if is_weights(package, request):
            return WRONG_BYTES[fault](package.weights)
        return honest(package, request)

    async with HostileServer(answer) as server:
        error = await refusal(tmp_path, server, DataCorruptError)
    assert "checksum" in str(error)
    assert all(file.stat().st_size <= len(package.weights) for file in partial_files(tmp_path))


FAULTY: dict[str, tuple[str, Answer]] = {
    "gzip bomb": (
        "compresses",
        lambda _: reply(
            200, gzip.compress(bytes(10_000_000)), content_encoding="gzip", content_type="json"
        ),
    ),
    "500 for ever": ("status 500", lambda _: reply(500)),
    "429 for ever": ("busy", lambda _: reply(429)),
    "redirect loop": ("more than 3 times", lambda request: reply(302, location=request.path)),
    "redirect to nowhere": ("more than 3 times", lambda _: reply(302, location="http://")),
    "redirect without location": ("more than 3 times", lambda _: reply(307)),
    "redirect to a file": ("no address", lambda _: reply(302, location="file:///etc/passwd")),
    "redirect to a private address": (
        "did not allow",
        lambda _: reply(302, location="http://10.0.0.1/"),
    ),
    "redirect to the metadata service": (
        "did not allow",
        lambda _: reply(302, location="http://169.254.169.254/"),
    ),
    "redirect to loopback": ("did not allow", lambda _: reply(302, location="http://[::1]:22/")),
    "redirect to another port": (
        "did not allow",
        lambda _: reply(302, location="http://127.0.0.1:22/"),
    ),
    "redirect with a user": (
        "no address",
        lambda _: reply(302, location="http://127.0.0.1@10.0.0.1/"),
    ),
    "not HTTP": ("not HTTP", lambda _: b"SSH-2.0-OpenSSH_9.2\r\n"),
    "endless header": ("not HTTP", lambda _: b"HTTP/1.1 200 X\r\nx: " + b"y" * 300_000),
    "endless index": ("too large", lambda _: endless()),
    "nothing at all": ("not HTTP", lambda _: b""),
}


@pytest.mark.parametrize("fault", FAULTY)
async def test_F16_T31_a_remote_that_misbehaves_is_unavailable(tmp_path, fault):
    words, answer = FAULTY[fault]
    async with HostileServer(answer) as server:
        error = await refusal(tmp_path, server, ServiceUnavailableError)
        assert words in str(error)
        assert len(server.requests) <= 4


async def test_F16_a_compressed_layer_is_not_opened(tmp_path, package):
    def answer(request: SeenRequest) -> bytes:
        if is_weights(package, request):
            return reply(200, gzip.compress(package.weights), content_encoding="gzip")
        return honest(package, request)

    async with HostileServer(answer) as server:
        error = await refusal(tmp_path, server, ServiceUnavailableError)
        assert "compress" in str(error)
        assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


async def test_T31_a_name_that_turns_into_a_private_address_is_refused(tmp_path, package):
    """DNS rebinding: an allowed host is looked up, and the address found is the one checked."""
    lookups: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        lookups.append(host)
        return ["127.0.0.1"]

    async with HostileServer(lambda request: honest(package, request)) as inside:
        location = f"http://cdn.example:{inside.port}/"
        async with HostileServer(
            lambda request: reply(302, location=location + request.path)
        ) as server:
            fetcher = open_fetcher(
                tmp_path,
                web_remote("http", server.port, f'allowed_hosts = ["cdn.example:{inside.port}"]'),
                resolve=resolve,
            )
            with pytest.raises(ServiceUnavailableError, match="inside this network"):
                await fetcher.fetch_package("office", MAIL)
            await fetcher.aclose()
        assert "cdn.example" in lookups
        assert inside.requests == []


async def test_a_redirect_the_operator_wrote_down_is_followed_without_the_password(
    tmp_path, package
):
    (tmp_path / "password").write_text("secret")
    async with (
        HostileServer(lambda request: honest(package, request)) as storage,
        HostileServer(lambda request: reply(307, location=storage.url + request.path)) as server,
    ):
        lines = (
            f'allowed_hosts = ["127.0.0.1:{storage.port}"]',
            'user = "car"',
            f'password_file = "{tmp_path}/password"',
        )
        fetcher = open_fetcher(tmp_path, web_remote("http", server.port, *lines))
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert all("authorization" in request.headers for request in server.requests)
        assert not any("authorization" in request.headers for request in storage.requests)
        await fetcher.aclose()


async def test_a_server_that_never_answers_is_unavailable(tmp_path):
    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with HostileServer(lambda _: silence()) as server:
        error = await refusal(tmp_path, server, ServiceUnavailableError, web_timeout_s=0.2)
    assert "in time" in str(error)


async def test_F15_retry_after_is_honoured(tmp_path):
    clock = FakeClock()
    async with HostileServer(lambda _: reply(429, retry_after="120")) as server:
        fetcher = open_fetcher(
            tmp_path, web_remote("http", server.port), retry=RetryPolicy(), clock_s=clock
        )
        for wait_s, num_requests in ((0.0, 1), (119.0, 1), (1.0, 2)):
            clock.advance(wait_s)
            with pytest.raises(ServiceUnavailableError):
                await fetcher.fetch_package("office", MAIL)
            assert len(server.requests) == num_requests
        await fetcher.aclose()


async def test_a_manifest_of_another_digest_is_refused(tmp_path, package):
    other = make_package(tmp_path / "other", weights_bytes=10, seed=2)

    def answer(request: SeenRequest) -> bytes:
        if request.path.endswith(package.digest.removeprefix("sha256:")):
            blob = other.layout / "blobs" / "sha256" / other.digest.removeprefix("sha256:")
            return reply(200, blob.read_bytes())
        return honest(package, request)

    async with HostileServer(answer) as server:
        await refusal(tmp_path, server, DataCorruptError)


async def test_F16_a_layer_that_announces_too_much_is_never_fetched(tmp_path, package):
    async with HostileServer(lambda _: reply(404)) as server:
        index = json.loads((package.layout / "index.json").read_bytes())
        name = index["manifests"][0]["digest"].removeprefix("sha256:")
        manifest = json.loads((package.layout / "blobs" / "sha256" / name).read_bytes())
        manifest["layers"][1]["size"] = MAX_WEIGHTS_BYTES + 1
        server.answer = lambda request: reply(200, json.dumps(manifest).encode())
        fetcher = open_fetcher(tmp_path, web_remote("registry", server.port))
        with pytest.raises(AdapterRejectedError, match="are allowed"):
            await fetcher.fetch_package("office", MAIL)
        assert len(server.requests) == 1
        assert partial_files(tmp_path) == []
        await fetcher.aclose()


async def test_a_layer_that_is_gone_is_not_found(tmp_path, package):
    def answer(request: SeenRequest) -> bytes:
        return reply(404) if is_weights(package, request) else honest(package, request)

    async with HostileServer(answer) as server:
        await refusal(tmp_path, server, NotFoundError)


async def test_another_part_than_asked_for_is_not_written(tmp_path, package):
    def answer(request: SeenRequest) -> bytes:
        if not is_weights(package, request):
            return honest(package, request)
        if "range" in request.headers:
            part = package.weights[1:]
            return reply(206, part, content_range=f"bytes 1-{len(part)}/{len(package.weights)}")
        return reply(200, package.weights[:200_000], content_length=str(len(package.weights)))

    async with HostileServer(answer) as server:
        error = await refusal(tmp_path, server, ServiceUnavailableError)
        assert "another part" in str(error)
        asked = [
            request.headers["range"] for request in server.requests if "range" in request.headers
        ]
        assert asked == ["bytes=200000-"]
