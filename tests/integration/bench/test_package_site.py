"""The remote of the tiers' benchmark is one a store can really bring packages from."""

from dataclasses import replace

import pytest

from bench.package_site import package_site
from edgelora.adapter_encoding import encode_adapter
from edgelora.adapter_package import Blob
from services.adapter_store.remotes.fetched import FetchedEncoded
from services.adapter_store.remotes.reference import parse_reference
from tests.support.adapter_packages import make_package, open_fetcher
from tests.support.adapter_verification import measured_adapter
from tests.support.measured_base import NUM_LAYERS, TARGETS
from tests.support.tiny_base import tiny_base

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


async def test_a_published_encoded_form_can_be_had_alone(tmp_path):
    files = measured_adapter()
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_bytes(files.config)
    (adapter / "adapter_model.safetensors").write_bytes(files.weights)
    form = encode_adapter(
        adapter,
        base_digest=tiny_base().digest,
        targets=TARGETS,
        num_layers=NUM_LAYERS,
        level=3.2,
    )
    base = replace(tiny_base(), targets=TARGETS, num_layers=NUM_LAYERS)
    async with package_site(tmp_path) as site:
        name = site.publish(adapter, "mail", base)
        (tmp_path / "store").mkdir()
        fetcher = open_fetcher(tmp_path / "store", site.remotes_file.read_text())
        blob = Blob.of(form.data)
        fetched = await fetcher.fetch_encoded(
            "office", parse_reference(name), digest=blob.digest, size_bytes=blob.size_bytes
        )
        assert isinstance(fetched, FetchedEncoded)
        assert fetched.path.read_bytes() == form.data
        await fetcher.aclose()
