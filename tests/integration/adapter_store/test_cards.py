"""What a tenant says of its adapters: its own affair, and no part of what an adapter is."""

import json
from dataclasses import replace

import pytest

from edgelora.adapter_format.card import MAX_CARD_BYTES
from edgelora.adapter_package import write_package
from edgelora.errors import AdapterRejectedError, InvalidRequestError
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import (
    StoreClient,
    StoreProcess,
    chunk,
    messages,
)
from tests.support.adapter_files import card_bytes, good_adapter

pytestmark = pytest.mark.integration

FILES = good_adapter(1)
LETTERS = card_bytes("Write to Anna", "Schreib Tom", description="Writes letters.")


def with_card(card, files=FILES):
    return replace(files, card=card)


async def test_card_is_kept_shown_and_no_part_of_the_digest(client, store):
    plain = (await client.register("a", FILES)).adapter
    assert not (await client.get("a", plain.digest)).example_prompts
    described = await client.register("a", with_card(LETTERS))
    assert (described.adapter.digest, described.is_new) == (plain.digest, False)
    store.kill()
    await store.start()
    found = await client.get("a", plain.digest)
    assert list(found.example_prompts) == ["Write to Anna", "Schreib Tom"]
    assert found.description == "Writes letters."
    (listed,) = (await client.list("a")).adapters
    assert listed.description == "Writes letters."
    assert not listed.example_prompts, "only GetAdapter tells them"


async def test_another_card_replaces_it_and_none_leaves_it(client):
    digest = (await client.register("a", with_card(LETTERS))).adapter.digest
    await client.register("a", FILES)
    assert len((await client.get("a", digest)).example_prompts) == 2
    await client.register("a", with_card(card_bytes("Cook", description="Cooks.")))
    found = await client.get("a", digest)
    assert (list(found.example_prompts), found.description) == (["Cook"], "Cooks.")


async def test_description_of_the_registration_comes_before_the_cards(client):
    registered = await client.register("a", with_card(LETTERS), description="mine")
    assert registered.adapter.description == "mine"
    # As ever, without a card the first registration wins.
    registered = await client.register("a", FILES, description="again")
    assert registered.adapter.description == "mine"


async def test_card_goes_with_its_adapter(client):
    digest = (await client.register("a", with_card(LETTERS))).adapter.digest
    await client.delete("a", digest)
    await client.register("a", FILES)
    assert not (await client.get("a", digest)).example_prompts


async def test_tenants_of_one_content_neither_see_nor_change_each_others_card_T34(client):
    digest = (await client.register("a", with_card(LETTERS), alias="mail")).adapter.digest
    await client.register("b", FILES, alias="mail")
    seen = await client.get("b", digest)
    assert (seen.description, list(seen.example_prompts)) == ("", [])
    assert not (await client.candidates("b")).candidates[0].example_prompts
    await client.register("b", with_card(card_bytes("Steal", description="B's.")))
    before = await client.candidates("a")
    assert list(before.candidates[0].example_prompts) == ["Write to Anna", "Schreib Tom"]
    await client.delete("b", digest)
    after = await client.get("a", digest)
    assert (after.description, len(after.example_prompts)) == ("Writes letters.", 2)
    assert (await client.candidates("a")).version == before.version


@pytest.mark.parametrize(
    "card",
    [
        b"{",
        b"[]",
        b'{"description": "", "examples": []}',
        b'{"description": "", "examples": ["x"], "exec": "rm"}',
        b'{"description": "\\ud800", "examples": ["x"]}',
        card_bytes("a\x1bb"),
        b'{"description": "", "examples": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    ],
)
async def test_bad_card_is_refused_and_nothing_is_registered(client, store, card):
    with pytest.raises(AdapterRejectedError, match=r"^card\.json") as caught:
        await client.register("a", with_card(card), alias="mail")
    assert caught.value.field.startswith("card")
    assert not (await client.list("a")).adapters
    assert store.blobs() == store.staged() == []


async def test_card_has_the_announced_size_and_comes_last(client, store):
    with pytest.raises(AdapterRejectedError) as caught:
        await client.register("a", FILES, card_size_bytes=MAX_CARD_BYTES + 1)
    assert caught.value.field == "header.card_size_bytes"
    files = with_card(LETTERS)
    header, *chunks = messages(client.header("a", files), files)
    for parts, words in (
        ([header, *chunks[:-1]], "cut"),
        ([header, chunks[-1], *chunks[:-1]], "adapter_config.json has 0"),
        ([header, *chunks, chunk(pb.ADAPTER_FILE_CARD, b"x")], "longer"),
        ([header, *chunks, chunk(pb.ADAPTER_FILE_WEIGHTS, b"x")], "longer"),
    ):
        with pytest.raises(InvalidRequestError, match=words):
            await client.send(iter(parts))
    assert store.staged() == []


@pytest.mark.parametrize("is_packed", [True, False])
async def test_package_brings_its_card(tmp_path, is_packed):
    peft = tmp_path / "site" / "letters"
    peft.mkdir(parents=True)
    (peft / "adapter_config.json").write_bytes(FILES.config)
    (peft / "adapter_model.safetensors").write_bytes(FILES.weights)
    (peft / "card.json").write_bytes(LETTERS)
    if is_packed:
        write_package(peft, tmp_path / "packed" / "letters", "latest")
    remotes = tmp_path / "remotes.toml"
    place = tmp_path / ("packed" if is_packed else "site")
    remotes.write_text(f'[usb]\nkind = "directory"\npath = "{place}"\n')
    store = StoreProcess(tmp_path, REMOTES_FILE=str(remotes))
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            _, registered = await client.install("a", "usb/letters")
            digest = registered.adapter.digest
            found = await client.get("a", digest)
            assert found.description == "Writes letters."
            assert list(found.example_prompts) == json.loads(LETTERS)["examples"]
            assert digest == (await client.register("b", FILES)).adapter.digest
    finally:
        store.close()


async def test_card_of_a_package_is_hostile_too(tmp_path):
    peft = tmp_path / "site" / "letters"
    peft.mkdir(parents=True)
    (peft / "adapter_config.json").write_bytes(FILES.config)
    (peft / "adapter_model.safetensors").write_bytes(FILES.weights)
    remotes = tmp_path / "remotes.toml"
    remotes.write_text(f'[usb]\nkind = "directory"\npath = "{tmp_path / "site"}"\n')
    store = StoreProcess(tmp_path, REMOTES_FILE=str(remotes))
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            for card in (b"{}", b" " * (MAX_CARD_BYTES + 1)):
                (peft / "card.json").write_bytes(card)
                with pytest.raises(AdapterRejectedError, match=r"card"):
                    await client.install("a", "usb/letters")
            assert not (await client.list("a")).adapters
    finally:
        store.close()
