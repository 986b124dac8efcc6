"""The demo data are reproducible, and nothing that is tested was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgelora.toolchain.chat_data import Conversation, read_conversations
from edgelora.toolchain.demo import DATA_SEED, DEMO_ADAPTERS
from edgelora.toolchain.demo_data import home_commands
from edgelora.toolchain.demo_data.home_values import AREAS, NAMES
from edgelora.toolchain.demo_data.material import read_material

DEMO = Path(__file__).resolve().parents[3] / "demo"
NAMES_OF_DEMOS = sorted(DEMO_ADAPTERS)


def requests(conversations: list[Conversation]) -> set[str]:
    return {conversation[0]["content"].lower() for conversation in conversations}


@pytest.mark.parametrize("name", NAMES_OF_DEMOS)
def test_shipped_data_is_what_the_builder_makes(name: str) -> None:
    built = DEMO_ADAPTERS[name].build(DATA_SEED)
    assert read_conversations(DEMO / name / "data" / "train.jsonl") == built.train
    assert read_conversations(DEMO / name / "data" / "test.jsonl") == built.test


@pytest.mark.parametrize("name", NAMES_OF_DEMOS)
def test_no_request_or_answer_is_in_both_sets(name: str) -> None:
    built = DEMO_ADAPTERS[name].build(DATA_SEED)
    assert len(built.train) >= 200
    assert len(built.test) >= 30
    assert not requests(built.train) & requests(built.test)
    if name != "home":  # two home sentences may well mean the same
        answers = {conversation[-1]["content"] for conversation in built.train}
        assert not answers & {conversation[-1]["content"] for conversation in built.test}


@pytest.mark.parametrize("name", NAMES_OF_DEMOS)
def test_no_placeholder_is_left_unfilled(name: str) -> None:
    built = DEMO_ADAPTERS[name].build(DATA_SEED)
    for conversation in built.train + built.test:
        assert [message["role"] for message in conversation] == ["user", "assistant"]
        texts = [conversation[0]["content"]]
        if name != "home":
            texts.append(conversation[1]["content"])
        for text in texts:
            assert text == text.strip()
            assert not set("{}|<>") & set(text)


def test_home_train_and_test_share_no_template() -> None:
    train, test = home_commands.build(DATA_SEED)
    assert not {one.template for one in train} & {one.template for one in test}
    assert len({one.template for one in test}) >= 80
    assert {one.intent for one in test} <= {one.intent for one in train}


def test_home_sentences_have_one_meaning() -> None:
    train, test = home_commands.build(DATA_SEED)
    keys = [home_commands._key(one.sentence) for one in train + test]
    assert len(keys) == len(set(keys))


def test_home_answers_are_compact_json_in_a_fixed_order() -> None:
    train, test = home_commands.build(DATA_SEED)
    for one in train + test:
        document = json.loads(one.answer())
        assert list(document) == ["intent", "slots"]
        assert document["intent"] in home_commands.INTENTS
        order = [home_commands.SLOT_ORDER.index(slot) for slot in document["slots"]]
        assert order == sorted(order)
        assert one.answer() == json.dumps(document, separators=(",", ":"))


def test_home_slot_values_are_spoken_in_the_sentence() -> None:
    for one in home_commands.build(DATA_SEED)[1]:
        for slot in ("name", "area", "search_query", "item", "message"):
            if slot in one.slots:
                assert one.slots[slot] in one.sentence.lower()


def test_no_device_is_named_like_an_area() -> None:
    for name in (name for names in NAMES.values() for name in names):
        assert not any(area in name.split() or area == name for area in AREAS)


@pytest.mark.parametrize(
    ("file", "key", "identity"),
    [
        ("business_email.toml", "scenario", "subject"),
        ("recipes.toml", "dish", "name"),
        ("tutor.toml", "fact", "ask"),
        ("tutor.toml", "unsuitable", "ask"),
    ],
)
def test_every_subject_is_on_one_side(file: str, key: str, identity: str) -> None:
    entries = read_material(file)[key]
    subjects = [entry[identity] for entry in entries]
    assert len(subjects) == len(set(subjects))
    assert {entry["split"] for entry in entries} == {"train", "test"}


def test_email_answers_hold_only_details_that_were_asked_for() -> None:
    built = DEMO_ADAPTERS["email"].build(DATA_SEED)
    slots = read_material("business_email.toml")["slots"]
    for request, answer in ((one[0]["content"], one[1]["content"]) for one in built.train):
        for value in slots["amount"] + slots["date"] + slots["order"] + slots["time"]:
            if value in answer:
                assert value in request


def test_tutor_declines_every_unsuitable_request() -> None:
    unsuitable = {
        wording
        for entry in read_material("tutor.toml")["unsuitable"]
        for wording in entry["ask"].split(" | ")
    }
    built = DEMO_ADAPTERS["tutor"].build(DATA_SEED)
    seen = 0
    for request, answer in (
        (one[0]["content"], one[1]["content"]) for one in built.train + built.test
    ):
        if request in unsuitable:
            seen += 1
            assert "not help" in answer or "cannot help" in answer or "grown-up" in answer
    assert seen >= 60
