"""`edgelora adapters ...` from the arguments to what is printed."""

from __future__ import annotations

import pytest

from edgelora.adapter_format.rank_cut import cut_adapter
from edgelora.errors import NotFoundError
from edgelora.v1.adapter_pb2 import Adapter, AdapterForecast, WarmUpState
from tests.integration.cli.conftest import CONFIG, PROBE, WEIGHTS
from tests.support.adapter_files import card_bytes, config_bytes, ranked_adapter

pytestmark = pytest.mark.integration


async def test_an_adapter_is_added_by_its_generation_and_shown(command, adapter):
    (adapter / PROBE).write_bytes(b"{}\n")
    said = await command("adapters", "add", str(adapter), "--alias", "mail", "--expect", "0")
    assert said.startswith("registered sha256:")
    assert said.endswith(" as mail (generation 1)\n")
    assert command.err == "Uploading mail ...\nUploading mail: done\n"
    assert command.gateway.store.probes == [b"{}\n"]
    (adapter / CONFIG).write_bytes(b"[]")
    add = ("adapters", "add", str(adapter), "--alias", "mail", "--expect")
    assert await command(*add, "0", status=1) == ""
    assert "the alias has changed" in command.err
    await command(*add, "1")

    shown = await command("adapters", "show", "mail")
    assert "mail (generation 2)" in shown
    assert "in memory 4, on flash 0, at its remote 0" in shown
    document = await command.json("adapters", "show", "mail")
    assert document["generations"] == {"mail": 2}
    assert document["source"] == "upload"
    assert document["parent_digest"] != document["digest"]
    assert document["usage"]["num_memory_hits"] == 4
    assert document["certificate"] is None


@pytest.fixture
def ranked(tmp_path):
    """A real adapter of rank 8, with probe and card."""
    directory = tmp_path / "ranked"
    directory.mkdir()
    files = ranked_adapter(8)
    (directory / CONFIG).write_bytes(files.config)
    (directory / WEIGHTS).write_bytes(files.weights)
    (directory / PROBE).write_bytes(b"{}\n")
    (directory / "card.json").write_bytes(card_bytes("Write to Anna", "Write to Tom"))
    return directory


async def test_lower_ranks_are_cut_and_registered_as_versions(command, ranked):
    add = ("adapters", "add", str(ranked), "--alias", "mail", "--ranks", "2, 4,2")
    document = await command.json(*add)
    original = document["adapter"]["digest"]
    four, two = document["versions"]
    assert {each["adapter"]["version_of_digest"] for each in (four, two)} == {original}
    assert 0 < four["relative_error"] < two["relative_error"] < 1
    assert four["alias"] is None
    assert command.err == "".join(
        f"Uploading {name} ...\nUploading {name}: done\n"
        for name in ("ranked", "ranked-rank-4", "ranked-rank-2")
    )
    # The probe goes with all of them, the card with the adapter alone.
    store = command.gateway.store
    assert store.probes == [b"{}\n"] * 3
    assert [bool(card) for card in store.cards] == [True, False, False]

    again = (await command(*add)).splitlines()
    assert again[0].startswith(f"was registered before: {original} as mail")
    assert "its version of rank 4: " in again[1]
    assert again[2].endswith(" % away from it")
    shown = await command("adapters", "show", "mail")
    assert "Write to Anna" in shown
    assert "Write to Tom" in shown
    assert f"version of {original[7:19]}" in await command("adapters", "list")


async def test_versions_that_training_kept_are_registered_in_one_command(command, ranked):
    for rank in (2, 4):
        version = ranked / f"rank-{rank}"
        version.mkdir()
        cut = cut_adapter((ranked / CONFIG).read_bytes(), (ranked / WEIGHTS).read_bytes(), rank)
        (version / CONFIG).write_bytes(cut.config)
        (version / WEIGHTS).write_bytes(cut.weights)
    (ranked / "rank-best").mkdir()
    document = await command.json("adapters", "register", str(ranked), "--alias", "mail")
    versions = [each["adapter"] for each in document["versions"]]
    assert {each["version_of_digest"] for each in versions} == {document["adapter"]["digest"]}
    assert [each["relative_error"] for each in document["versions"]] == [None, None]
    said = await command("adapters", "add", str(ranked), "--alias", "mail")
    assert [line.rsplit(", ", 1)[-1] for line in said.splitlines()[1:]] == [
        "its version of rank 4",
        "its version of rank 2",
    ]
    await command("adapters", "add", str(ranked), "--ranks", "3", status=2)
    assert "leave out --ranks" in command.err


@pytest.mark.parametrize(
    ("ranks", "status", "words"),
    [
        ("8", 1, "1 to 7"),
        ("4,16", 1, "1 to 7"),
        ("0", 1, "1 to 7"),
        ("four", 2, "whole numbers"),
        ("4,,2", 2, "whole numbers"),
        ("-4", 2, "whole numbers"),
        ("9" * 5000, 2, "whole numbers"),
        (",".join(map(str, range(1, 18))), 2, "at most 16"),
    ],
)
async def test_nothing_is_sent_when_a_rank_can_not_be_cut(command, ranked, ranks, status, words):
    await command("adapters", "add", str(ranked), f"--ranks={ranks}", status=status)
    assert words in command.err
    assert not command.gateway.store.adapters


async def test_what_can_not_be_cut_is_named_before_anything_is_sent(command, ranked):
    (ranked / CONFIG).write_bytes(config_bytes(r=8, use_dora=True))
    await command("adapters", "add", str(ranked), "--ranks", "4", status=1)
    assert "DoRA" in command.err
    assert not command.gateway.store.adapters


async def test_no_adapter_is_called_auto(command, adapter):
    await command("adapters", "add", str(adapter), "--alias", "auto", status=1)
    assert "leaves the choice to the router" in command.err
    await command("adapters", "add", str(adapter), "--alias", "mail")
    await command("adapters", "alias", "auto", "mail", status=1)
    assert "leaves the choice to the router" in command.err


async def test_a_generation_needs_its_alias(command, adapter):
    for arguments in (("add", str(adapter)), ("install", "shop/mail")):
        await command("adapters", *arguments, "--expect", "1", status=2)
        assert "--expect needs --alias" in command.err
    assert command.gateway.store.installs.empty()


async def test_a_package_is_installed_with_progress(command):
    said = await command(
        *("adapters", "install", "shop/mail:v2", "--alias", "mail", "--description", "writes mail")
    )
    assert said.endswith(" as mail (generation 1)\n")
    assert command.err == "Installing shop/mail:v2 ...\nInstalling shop/mail:v2: done\n"
    document = await command.json("adapters", "install", "shop/mail:v2", "--alias", "post")
    assert (document["is_new"], document["alias"]["name"]) == (False, "post")
    assert document["adapter"]["source"] == "shop/mail:v2"
    command.gateway.store.install_failure = NotFoundError("the remote has no such package")
    await command("adapters", "install", "shop/none", status=1)
    assert command.err == "edgelora: the remote has no such package\n"


def fill(command, num_adapters: int) -> list[str]:
    """Gives the tenant adapters; returns their digests in the store's order."""
    digests = [f"sha256:{index:064x}" for index in range(num_adapters)]
    command.gateway.store.adapters["acme"] = {
        digest: Adapter(
            digest=digest,
            aliases=[f"a{index}"],
            is_on_flash=index % 2 == 0,
            size_bytes=4_000_000,
            flash_bytes=900_000,
            description=f"number\n{index}",
        )
        for index, digest in enumerate(digests)
    }
    return digests


async def test_a_list_of_any_length_is_asked_for_once(command):
    digests = fill(command, 1002)
    heading, *lines = (await command("adapters", "list")).splitlines()
    assert heading.split() == [
        "aliases",
        "digest",
        "state",
        "task",
        "rank",
        "MB",
        "on",
        "flash",
        "description",
    ]
    assert [line.split()[1] for line in lines] == [digest[:19] for digest in digests]
    assert lines[0].split()[-5:] == ["0", "4.0", "0.9", "number", "0"]
    assert lines[1].split()[-3:] == ["-", "number", "1"]
    assert command.gateway.store.num_listed == [1000, 2]
    assert command.err == ""
    document = await command.json("adapters", "list")
    assert [adapter["digest"] for adapter in document["adapters"]] == digests


@pytest.mark.parametrize(
    ("limit", "num_listed", "has_more"),
    [(1, [1], True), (3, [3], True), (5, [5], False), (6, [5], False), (5000, [5], False)],
)
async def test_a_limit_shows_the_first_and_asks_for_no_more(command, limit, num_listed, has_more):
    digests = fill(command, 5)
    lines = (await command("adapters", "list", "--limit", str(limit))).splitlines()[1:]
    assert [line.split()[1] for line in lines] == [digest[:19] for digest in digests[:limit]]
    assert command.gateway.store.num_listed == num_listed
    assert ("there are more" in command.err) is has_more


async def test_a_limit_above_a_page_cuts_the_last_page_and_its_aliases(command):
    fill(command, 2100)
    document = await command.json("adapters", "list", "--limit", "1001")
    assert len(document["adapters"]) == 1001
    assert command.gateway.store.num_listed == [1000, 1000]


async def test_no_adapters_is_a_line_and_an_empty_document(command):
    assert (await command("adapters", "list")).startswith("there are no adapters: register one")
    assert await command.json("adapters", "list") == {"adapters": [], "aliases": []}


async def test_an_adapter_is_pinned_and_let_go(command, adapter):
    await command("adapters", "add", str(adapter), "--alias", "mail")
    assert (await command("adapters", "pin", "mail")).startswith("pinned sha256:")
    assert "registered, pinned" not in (listed := await command("adapters", "list"))
    assert "unspecified, pinned" in listed
    assert (await command.json("adapters", "unpin", "mail"))["is_pinned"] is False
    await command("adapters", "pin", "none", status=1)
    assert "no such adapter" in command.err


async def test_what_is_learnt_is_shown_switched_and_forgotten(command, adapter):
    await command("adapters", "add", str(adapter), "--alias", "mail")
    (digest,) = command.gateway.store.adapters["acme"]
    gone = "sha256:" + "0" * 64
    command.gateway.store.habits["acme"] = WarmUpState(
        is_enabled=True,
        num_uses=1,
        forecasts=[
            AdapterForecast(
                digest=digest, probability=0.75, reasons=["hour of a weekday", "recent"]
            ),
            AdapterForecast(digest=gone, probability=0.25),
        ],
    )
    first, heading, *rows = (await command("adapters", "warmup")).splitlines()
    assert first == "warm-ups are on; learnt from 1 use"
    assert heading.split() == ["adapter", "soon", "because", "of"]
    assert rows[0].split() == ["mail", "75", "%", "hour", "of", "a", "weekday,", "recent"]
    assert rows[1].split() == [gone, "25", "%"]
    document = await command.json("adapters", "warmup", "off")
    assert (document["is_enabled"], document["num_uses"]) == (False, 1)
    assert document["forecasts"][0]["reasons"] == ["hour of a weekday", "recent"]
    assert (await command.json("adapters", "warmup", "forget"))["num_uses"] == 0
    assert (await command.json("adapters", "warmup", "on"))["is_enabled"] is True
    assert (await command.json("adapters", "warmup", "show"))["is_enabled"] is True
    await command("adapters", "warmup", "maybe", status=2)


async def test_a_name_the_tenant_lacks_is_answered_with_those_it_has(command, adapter):
    await command("adapters", "show", "mail", status=1)
    assert "no such adapter: it has no aliases; `edgelora adapters list` shows all" in command.err
    for index in range(21):
        (adapter / CONFIG).write_text(str(index))
        await command("adapters", "add", str(adapter), "--alias", f"a{index:02}")
    for arguments in (("show", "mail"), ("alias", "post", "mail")):
        await command("adapters", *arguments, status=1)
        assert "its aliases are a00, a01," in command.err
        assert "a19 and more; `edgelora adapters list` shows all" in command.err
        assert "a20" not in command.err


async def test_who_asks_is_sent_and_the_answer_says_what_it_used(command, adapter):
    await command("adapters", "add", str(adapter), "--alias", "mail")
    answer = await command.json("chat", "-m", "Hi", "--adapter", "mail=0.5", "--user", "ann")
    assert command.gateway.store.users == ["ann"]
    (used,) = answer["adapters"]
    assert (used["alias"], used["strength"], used["generation"]) == ("mail", 0.5, 1)
    assert used["source"] == "upload"
    assert used["certificate_digest"].startswith("sha256:")
    await command("chat", "-m", "Hi", "--user", "a" * 65, status=1)
    assert command.err == "edgelora: user may have at most 64 characters, all printable\n"
