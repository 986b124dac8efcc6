"""Places that fsspec reaches: its memory and its local files."""

from __future__ import annotations

import fsspec
import pytest

from edgelora.errors import DataCorruptError, NotFoundError, ServiceUnavailableError
from services.adapter_store.remotes.reference import parse_reference
from tests.support.adapter_packages import make_package, open_fetcher

pytestmark = pytest.mark.integration
MAIL = parse_reference("cloud/mail")


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    place = {"memory": f"memory://{tmp_path.name}", "file": f"file://{tmp_path}/files"}
    yield place[request.param]
    fsspec.filesystem("memory").store.clear()


async def test_a_package_comes_from_wherever_fsspec_reaches(tmp_path, url):
    package = make_package(tmp_path / "package")
    files = fsspec.filesystem(url.partition(":")[0])
    files.put(f"{package.layout}/", f"{url}/mail/", recursive=True)
    fetcher = open_fetcher(tmp_path, f'[cloud]\nkind = "fsspec"\nurl = "{url}"\n')
    fetched = await fetcher.fetch_package("office", MAIL)
    assert fetched.weights_path.read_bytes() == package.weights
    with pytest.raises(NotFoundError):
        await fetcher.fetch_package("office", parse_reference("cloud/other"))
    weights = max(files.find(f"{url}/mail/blobs"), key=files.size)
    files.pipe(weights, bytes(len(package.weights)))
    with pytest.raises(DataCorruptError, match="checksum"):
        await fetcher.fetch_package("office", MAIL)
    await fetcher.aclose()


async def test_a_protocol_that_is_not_there_is_unavailable(tmp_path):
    fetcher = open_fetcher(tmp_path, '[cloud]\nkind = "fsspec"\nurl = "nonesuch://bucket"\n')
    with pytest.raises(ServiceUnavailableError):
        await fetcher.fetch_package("office", MAIL)
    await fetcher.aclose()
