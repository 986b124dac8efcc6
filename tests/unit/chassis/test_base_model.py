"""A model's description that is damaged is told as such, with the remedy."""

import json

import pytest

from edgelora.toolchain.prepare import DEFAULT_ENCODER_SOURCE
from services.chassis.base_model import FILE_NAME, BaseModel, prepare_command, read_object
from tests.support.stand_in_backend import stand_in_model


def test_what_is_saved_is_read(tmp_path):
    stand_in_model().save(tmp_path)
    assert BaseModel.load(tmp_path) == stand_in_model()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"5", b"null", b"\xff", b'{"a"', b"[" * 200_000, b'{"targets": {}}']
)
def test_file_that_is_no_description_is_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(ValueError, match="edgelora model prepare --force"):
        BaseModel.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"name": 5},
        {"digest": None},
        {"vocab_size": "many"},
        {"vocab_size": 0},
        {"num_layers": 1.5},
        {"hidden_size": True},
        {"max_context_tokens": []},
        {"targets": []},
        {"targets": {"q_proj": 5}},
        {"targets": {"q_proj": [32]}},
        {"targets": {"q_proj": ["a", "b"]}},
        {"files": []},
        {"files": {"model.edgelora": 5}},
        {"quantisation": None},
        {"pooling": "mean"},
        {"family": "bert", "pooling": None},
        {"family": "bert", "pooling": "max"},
    ],
)
def test_field_of_a_wrong_shape_is_refused(tmp_path, changes):
    stand_in_model().save(tmp_path)
    document = json.loads((tmp_path / FILE_NAME).read_text())
    (tmp_path / FILE_NAME).write_text(json.dumps({**document, **changes}))
    with pytest.raises(ValueError, match=f"{FILE_NAME} is damaged: run `edgelora model prepare"):
        BaseModel.load(tmp_path)


def test_field_that_is_missing_is_refused(tmp_path):
    stand_in_model().save(tmp_path)
    document = json.loads((tmp_path / FILE_NAME).read_text())
    # What a model of before could not say is known of it.
    for name in document.keys() - {"quantisation", "pooling"}:
        rest = {key: value for key, value in document.items() if key != name}
        (tmp_path / FILE_NAME).write_text(json.dumps(rest))
        with pytest.raises(ValueError, match="edgelora model prepare"):
            BaseModel.load(tmp_path)


def test_missing_file_is_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("smollm2-135m-instruct", "edgelora model prepare --weights float32"),
        (
            "all-minilm-l6-v2",
            f"edgelora model prepare {DEFAULT_ENCODER_SOURCE} --weights float32",
        ),
        ("mine", "edgelora model prepare SOURCE --name mine --weights float32"),
    ],
)
def test_the_command_that_prepares_a_model_makes_that_one(name, command):
    assert prepare_command(name, "float32") == command
