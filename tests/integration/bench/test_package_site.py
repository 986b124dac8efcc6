"""The remote of the tiers' benchmark is one a store can really bring packages from."""

import pytest

from bench.package_site import package_site
from services.adapter_store.remotes.reference import parse_reference
from tests.support.adapter_packages import make_package, open_fetcher

pytestmark = pytest.mark.integration


async def test_a_published_adapter_arrives_whole(tmp_path):
    package = make_package(tmp_path / "adapter")
    async with package_site(tmp_path) as site:
        name = site.publish(package.directory, "mail")
        (tmp_path / "store").mkdir()
        fetcher = open_fetcher(tmp_path / "store", site.remotes_file.read_text())
        fetched = await fetcher.fetch_package("office", parse_reference(name))
        assert fetched.weights_path.read_bytes() == package.weights
        assert fetched.config_path.read_bytes() == package.config
        await fetcher.aclose()
