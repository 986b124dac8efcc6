"""What `up` does about the weights of its model, and what it says when torch computes."""

import dataclasses

import pytest

from edgelora.cli.errors import CliError
from edgelora.cli.served_model import ensure_encoder, ensure_model
from services.chassis.base_model import DEFAULT_NAME, FLOAT32_FILE, NATIVE_FILE, BaseModel
from services.inference.backends.native_backend import NativeBackend
from tests.support.prepared_model import prepared_model
from tests.support.stand_in_backend import stand_in_model

needs_core = pytest.mark.skipif(NativeBackend.probe() is not None, reason="needs the native core")


@pytest.fixture
def lines():
    return []


@pytest.fixture
def ensure(tmp_path, lines):
    def call(name, **environ):
        ensure_model(tmp_path, name, environ, lines.append)
        return BaseModel.load(tmp_path / "models" / name)

    return call


@pytest.fixture
def default_model(tmp_path):
    """The real model, but with the fp32 weights alone, as training leaves it."""
    real, directory = prepared_model(), tmp_path / "models" / DEFAULT_NAME
    directory.mkdir(parents=True)
    for path in real.iterdir():
        if path.name not in (NATIVE_FILE, "edgelora_model.json"):
            (directory / path.name).symlink_to(path)
    model = BaseModel.load(real)
    model = dataclasses.replace(model, files={FLOAT32_FILE: model.files[FLOAT32_FILE]})
    model.save(directory)
    return directory


def other_model(tmp_path, *files):
    directory = tmp_path / "models/other"
    directory.mkdir(parents=True)
    model = dataclasses.replace(
        stand_in_model(), name="other", files=dict.fromkeys(files, "sha256:")
    )
    model.save(directory)


@needs_core
def test_the_form_for_the_core_joins_where_only_the_one_for_training_is(
    ensure, default_model, lines
):
    model = ensure(DEFAULT_NAME)
    model.verify_file(default_model, NATIVE_FILE)
    assert lines == []


def test_torch_that_was_asked_for_gets_no_other_form_and_one_remark(ensure, default_model, lines):
    model = ensure(DEFAULT_NAME, EDGELORA_INFERENCE_BACKEND="torch")
    assert set(model.files) == {FLOAT32_FILE}
    (line,) = lines
    assert line.startswith("torch computes, several times slower")
    assert "it was asked for" in line


@needs_core
def test_a_model_of_unknown_source_keeps_torch_and_the_remedy_is_said(ensure, tmp_path, lines):
    other_model(tmp_path, FLOAT32_FILE)
    ensure("other")
    (line,) = lines
    assert line.startswith("torch computes, several times slower")
    assert "run `edgelora model prepare SOURCE --name other --weights native`" in line


def test_torch_in_place_of_a_core_that_is_not_installed_is_said(
    ensure, tmp_path, lines, monkeypatch
):
    monkeypatch.setattr(NativeBackend, "probe", staticmethod(lambda: "run `make native`"))
    other_model(tmp_path, FLOAT32_FILE, NATIVE_FILE)
    ensure("other")
    assert lines == [
        "torch computes, several times slower than the native core: "
        "native can not serve: run `make native`"
    ]


def test_a_model_nothing_can_serve_is_refused_before_anything_starts(ensure, tmp_path):
    other_model(tmp_path)
    with pytest.raises(CliError, match="--name other --weights native"):
        ensure("other", EDGELORA_INFERENCE_BACKEND="native")


def test_a_model_of_the_other_kind_is_named_with_its_option(tmp_path):
    other_model(tmp_path, FLOAT32_FILE)
    with pytest.raises(CliError, match="is a decoder: name it with --model"):
        ensure_encoder(tmp_path, "other", {}, print)
    with pytest.raises(CliError, match="model bert is not prepared"):
        ensure_encoder(tmp_path, "bert", {}, print)
