"""Hugging Face directories whose small files are damaged or lie: refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_source import open_directory
from tests.support.small_tokenizer import CHAT_TEMPLATE
from tests.support.tiny_families import VOCAB_SIZE, save_directory, tiny_model

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
DEEP = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


@pytest.fixture
def change(tmp_path: Path, model) -> Callable[..., None]:
    """Replaces fields of a JSON file of the directory."""
    save_directory(model, tmp_path)

    def change(name: str, **fields: object) -> None:
        path = tmp_path / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def refused(directory: Path, told: str) -> None:
    with pytest.raises(ToolchainError, match=told) as caught:
        open_directory(directory)
    text = str(caught.value)
    assert "\n" not in text
    text.encode()  # fit for a terminal


@pytest.mark.parametrize("value", [[], {}, None, 1, True, "x", "\ud800"])
def test_model_type_of_any_kind_is_refused(tmp_path: Path, change, value: object):
    change(CONFIG, model_type=value)
    refused(tmp_path, "has model_type|is not JSON")


@pytest.mark.parametrize(
    "value",
    [[], {}, "abc", [[1]], [1, "2"], 1.0, float("inf"), True, -1, [0, -1], VOCAB_SIZE, 2**70],
)
@pytest.mark.parametrize("name", [CONFIG, "generation_config.json"])
def test_end_tokens_that_cannot_be_are_refused(tmp_path: Path, change, name: str, value: object):
    if name == CONFIG:  # which counts only where the other file says nothing
        (tmp_path / "generation_config.json").unlink()
    change(name, eos_token_id=value)
    refused(tmp_path, "eos_token_id must be ids of tokens, from 0 to 274")


def test_end_tokens_of_the_configuration_are_kept(tmp_path: Path, change):
    (tmp_path / "generation_config.json").unlink()
    change(CONFIG, eos_token_id=[2, 0])
    assert open_directory(tmp_path).config["eos_token_id"] == [2, 0]


@pytest.mark.parametrize("name", ["bos_token_id", "pad_token_id"])
def test_other_tokens_are_ids_or_none(tmp_path: Path, change, name: str):
    for value, kept in ((3, 3), (-1, None), (VOCAB_SIZE, None), (None, None)):
        change(CONFIG, **{name: value})
        assert open_directory(tmp_path).config[name] == kept
    for wrong in ({"a": 1}, "3", [3], 1.5, True):
        change(CONFIG, **{name: wrong})
        refused(tmp_path, f"{name} is not the id of a token")


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER_CONFIG, "generation_config.json"])
@pytest.mark.parametrize(
    "content", [DEEP, b"", b"\0", b"[]", b"5", b"\xff\xfe", b"9" * 5000, b'{"a": "\\ud800"}']
)
def test_file_that_is_no_json_object_is_refused(tmp_path: Path, change, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path, f"{name} is not (JSON|a JSON object|UTF-8): copy it again")


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER_CONFIG, "chat_template.jinja", TOKENIZER])
def test_folder_or_bytes_in_the_place_of_a_file_are_refused(tmp_path: Path, change, name: str):
    (tmp_path / name).write_bytes(b"\xff\xfe")
    refused(tmp_path, f"{name} is not UTF-8: copy it again")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    if name != "chat_template.jinja":
        refused(tmp_path, f"{name}( cannot be read|: save a fast tokenizer)")


@pytest.mark.parametrize(
    "value",
    [
        5,
        {},
        True,
        ["a"],
        [{"name": [], "template": "x"}],
        [{"template": "x"}],
        [{"name": "default", "template": 5}],
        "{% for",
        "{{ x | nothing_like_it }}",
        "{{ " + "(" * 100_000,
        "{% generation %}x{% endgeneration %}",
    ],
)
def test_template_the_worker_could_not_compile_is_refused(tmp_path: Path, change, value: object):
    change(TOKENIZER_CONFIG, chat_template=value)
    refused(tmp_path, "chat template is broken")


def test_separate_template_is_held_to_the_same(tmp_path: Path, change):
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    refused(tmp_path, "chat template is broken")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (CHAT_TEMPLATE, CHAT_TEMPLATE),
        ([{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}], "d"),
        ([{"name": "tools", "template": "t"}], None),
        ("", None),
        (None, None),
    ],
)
def test_template_that_can_be_is_kept(tmp_path: Path, change, value: object, kept: str | None):
    change(TOKENIZER_CONFIG, chat_template=value)
    assert open_directory(tmp_path).tokenizer.chat_template == kept


@pytest.mark.parametrize("value", ["zzz", "", {"content": "zzz"}])
def test_end_token_that_is_no_token_is_refused(tmp_path: Path, change, value: object):
    change(TOKENIZER_CONFIG, eos_token=value)
    refused(tmp_path, r"eos_token is none of tokenizer\.json")


def test_token_ids_beyond_the_vocabulary_are_refused(tmp_path: Path, change):
    document = json.loads((tmp_path / TOKENIZER).read_text())
    document["model"]["vocab"]["far"] = 10**6
    (tmp_path / TOKENIZER).write_text(json.dumps(document))
    refused(tmp_path, "1000001 tokens, the model only 275")
