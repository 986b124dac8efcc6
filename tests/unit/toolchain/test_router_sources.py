"""What a router is trained on, and what is wrong with it."""

import json

import pytest

from edgelora.toolchain.chat_data import read_conversations
from edgelora.toolchain.demo import DEMO_ADAPTERS
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.router_card import routed_text, write_routing_card
from edgelora.toolchain.router_sources import find_adapters, read_sources, read_texts
from tests.support.prepared_model import ROOT

DEMO = ROOT / "demo"


def data_of(adapters, file="test.jsonl"):
    return {name: directory / "data" / file for name, directory in adapters.items()}


def test_demo_adapters_are_sources():
    adapters = find_adapters([DEMO])
    sources = read_sources(adapters, data_of(adapters))
    assert [source.name for source in sources] == sorted(DEMO_ADAPTERS)
    assert len({source.digest for source in sources}) == 4
    assert all(source.digest.startswith("sha256:") for source in sources)
    assert sources[1].texts[0] == sources[1].conversations[0][-2]["content"]


@pytest.mark.parametrize("name", DEMO_ADAPTERS)
def test_demo_cards_are_made_from_training_data(name, tmp_path):
    conversations = read_conversations(DEMO / name / "data" / "train.jsonl")
    write_routing_card(tmp_path, DEMO_ADAPTERS[name].description, conversations)
    assert (tmp_path / "card.json").read_bytes() == (DEMO / name / "card.json").read_bytes()


def test_one_directory_is_one_adapter():
    assert find_adapters([DEMO / "home"]) == {"home": DEMO / "home"}


def message(adapters, data):
    with pytest.raises(ToolchainError) as refused:
        read_sources(adapters, data)
    return str(refused.value)


def test_what_is_missing_is_named(tmp_path):
    adapters = find_adapters([DEMO])
    data = data_of(adapters)
    two = {name: adapters[name] for name in ("home", "tutor")}
    assert "at least 3 adapters" in message(two, data_of(two))
    assert "--data home=FILE" in message(adapters, {k: v for k, v in data.items() if k != "home"})
    assert "'cat', which is no adapter here" in message(adapters, data | {"cat": data["home"]})
    assert "same adapter" in message(
        adapters | {"copy": DEMO / "home"}, data | {"copy": data["home"]}
    )

    for file in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / file).write_bytes((DEMO / "home" / file).read_bytes())
    other = adapters | {"other": tmp_path}
    assert "no card.json" in message(other, data | {"other": data["home"]})
    (tmp_path / "card.json").write_text(json.dumps({"examples": []}))
    assert "'other': card.json" in message(other, data | {"other": data["home"]})
    (tmp_path / "adapter_model.safetensors").unlink()
    assert "no adapter_model.safetensors" in message(other, data | {"other": data["home"]})
    with pytest.raises(ToolchainError, match="holds no adapter"):
        find_adapters([tmp_path / "none"])
    with pytest.raises(ToolchainError, match="two adapters are called 'home'"):
        find_adapters([DEMO, DEMO / "home"])


def test_texts_come_one_a_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(" one \n\ntwo\n")
    assert read_texts([path]) == ["one", "two"]
    path.write_text("\n")
    with pytest.raises(ToolchainError, match="holds no texts"):
        read_texts([path])
    path.write_bytes(b"\xff")
    with pytest.raises(ToolchainError, match="not UTF-8"):
        read_texts([path])


def test_the_last_question_is_what_is_routed():
    turns = [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    conversation = [{"role": role, "content": content} for role, content in turns]
    assert routed_text(conversation) == "c"
    assert routed_text(conversation[:3]) == "a"


def test_a_card_spreads_over_the_data_and_leaves_out_what_is_too_long(tmp_path):
    texts = [f"prompt {n}" for n in range(128)] + ["x" * 501]
    data = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": "y"}] for text in texts
    ]
    write_routing_card(tmp_path, "d" * 600, data)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["examples"] == [f"prompt {n}" for n in range(0, 128, 2)]
    assert card["description"] == "d" * 500
