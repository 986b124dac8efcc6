"""GET /v1/models: what `model` may be, for whom."""

import openai
import pytest

from tests.support.openai_node import BASE

pytestmark = pytest.mark.integration


async def test_the_base_auto_and_the_callers_adapters_are_listed(node):
    async with node.client() as client:
        models = {model.id: model async for model in client.models.list()}
    assert list(models) == [BASE, "auto", "home"]
    adapter = models["home"]
    assert (adapter.parent, adapter.root, adapter.owned_by) == (BASE, node.digest, "acme")


async def test_each_name_can_be_asked_for(node):
    async with node.client() as client:
        for name in (BASE, "auto", "home", f"{BASE}:home", node.digest):
            model = await client.models.retrieve(name)
            assert model.id == name
            root = None if name in (BASE, "auto") else node.digest
            assert getattr(model, "root", None) == root


async def test_a_foreign_model_looks_like_one_that_does_not_exist(node):
    await node.bench.client("other")
    answers = []
    async with node.client(api_key=node.bench.keys["other"]) as client:
        for name in ("home", node.digest, "nobody", "sha256:" + "0" * 64, "../etc/passwd", "a b"):
            with pytest.raises(openai.NotFoundError) as caught:
                await client.models.retrieve(name)
            answers.append(caught.value.response.text)
    assert len(set(answers)) == 1
    assert caught.value.code == "model_not_found"
