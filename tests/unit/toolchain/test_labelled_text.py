"""Reading what a classifier is trained on; what is wrong is named, and no text is repeated."""

from __future__ import annotations

import json

import pytest

from edgelora.toolchain.classification.labelled_text import LabelledText, read_data
from edgelora.toolchain.errors import ToolchainError

SECRET = "my account number is 12345"


def lines(*rows):
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)


MANY = [(f"wake me at {hour}", "alarm") for hour in range(20)]
MANY += [(f"pay {amount} euros", "bill") for amount in range(20)]
MANY += [(f"what is the capital of country {number}", None) for number in range(10)]


def test_lines_are_read_and_a_tenth_of_each_label_is_held_out(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text(lines(*MANY))
    data = read_data(file)
    assert data.labels == ("alarm", "bill")
    held = [one.label for one in data.validation]
    assert sorted(map(str, held)) == ["None", "alarm", "alarm", "bill", "bill"]
    assert len(data.train) == 45
    assert not set(data.train) & set(data.validation)
    assert read_data(file) == data
    assert read_data(file, seed=1).validation != data.validation


def test_a_mark_of_byte_order_and_separators_inside_a_text_are_no_defects(tmp_path):
    file = tmp_path / "data.jsonl"
    rows = [json.dumps({"text": f"{text}\u2028\x85", "label": label}) for text, label in MANY]
    file.write_text("\r\n".join(rows), encoding="utf-8-sig")
    plain = tmp_path / "plain.jsonl"
    plain.write_text("\n".join(rows).encode().decode("unicode_escape"), encoding="utf-8")
    assert len(read_data(file).train) == len(read_data(plain).train) == 45


def test_the_shape_of_clinc150_brings_its_own_splits(tmp_path):
    file = tmp_path / "data_full.json"
    document = {
        "oos_train": [["who won", "oos"]],
        "train": [["wake me", "alarm"], ["pay it", "bill"]],
        "val": [["alarm please", "alarm"]],
        "oos_val": [["how deep is the sea", "oos"]],
        "test": [["bill please", "bill"]],
        "oos_test": [],
    }
    file.write_text(json.dumps(document))
    data = read_data(file)
    assert data.train[-1] == LabelledText("who won", None)
    assert [one.label for one in data.validation] == ["alarm", None]
    assert data.test == (LabelledText("bill please", "bill"),)


def test_another_label_can_stand_for_none_and_files_for_the_splits(tmp_path):
    for name in ("train", "validation", "test"):
        (tmp_path / name).write_text(lines(("wake", "alarm"), ("pay", "bill"), ("sea", "other")))
    places = {name: tmp_path / name for name in ("train", "validation", "test")}
    data = read_data(**places, out_of_scope="other")
    assert data.labels == ("alarm", "bill")
    assert data.train == data.validation == data.test
    assert read_data(**places).labels == ("alarm", "bill", "other")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "data is empty"),
        ("{", "data, line 1 is no JSON"),
        (lines((SECRET, "a"))[:-3], "data, line 1 is no JSON"),
        ('{"text": "a"}', "data, line 1 has to be"),
        (lines((SECRET, 3)), "data, line 1: the label has to be null or a text"),
        (lines(("  ", "a")), "data, line 1: the text must not be empty"),
        (lines(("\udfff", "a")), "data, line 1: the text must not be empty, and be of whole"),
        (lines((SECRET, "a\n")), "data, line 1: the label has to be printable"),
        (lines((SECRET, "x" * 201)), "1 to 200 characters"),
        (lines((SECRET, "a"), ("b", "a")), "2 to 4095 labels, found: 1"),
        (lines((SECRET, "a"), ("b", "b")), "one label has 1 text: give at least 2"),
        (json.dumps({"train": [[SECRET]]}), "data, train, text 1 has to be"),
        (json.dumps({"train": SECRET}), "data: train has to be a list"),
        (json.dumps({"train": [], "dev": []}), "data has other splits than"),
        (
            json.dumps({"train": [["a", "a"], ["b", "b"]], "val": [[SECRET, "c"]]}),
            "the val texts have 1 labels that training never saw",
        ),
    ],
)
def test_what_is_wrong_is_named_and_no_text_is_repeated(tmp_path, content, words):
    (tmp_path / "data").write_text(content)
    with pytest.raises(ToolchainError, match=words) as caught:
        read_data(tmp_path / "data")
    assert SECRET not in str(caught.value)
