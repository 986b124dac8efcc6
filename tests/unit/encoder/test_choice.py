"""Which back end serves an encoder, and what is said where none can."""

import dataclasses

import pytest

from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE
from services.chassis.settings import ConfigError
from services.inference.encoder.choice import choose_encoder_backend
from services.inference.encoder.native_backend import NativeEncoderBackend
from tests.support.tiny_base import tiny_base

DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def save(tmp_path, monkeypatch):
    def save(*files, obstacle=None, family="bert"):
        monkeypatch.setattr(NativeEncoderBackend, "probe", staticmethod(lambda: obstacle))
        model = dataclasses.replace(
            tiny_base(),
            family=family,
            pooling="mean" if family == "bert" else None,
            files=dict.fromkeys(files, DIGEST),
        )
        model.save(tmp_path)
        return tmp_path

    return save


def test_native_comes_first_and_torch_stands_in_with_the_reason(save):
    assert choose_encoder_backend("auto", save(NATIVE_FILE, FLOAT32_FILE)).name == "native"
    choice = choose_encoder_backend("auto", save(NATIVE_FILE, FLOAT32_FILE, obstacle="no core"))
    assert (choice.name, choice.reason) == ("torch", "native can not serve: no core")
    assert choose_encoder_backend("torch", save(NATIVE_FILE, FLOAT32_FILE)).name == "torch"


def test_without_a_back_end_every_obstacle_is_told_with_its_remedy(save):
    with pytest.raises(ConfigError, match=r"no core; torch can not serve: .*model prepare"):
        choose_encoder_backend("auto", save(NATIVE_FILE, obstacle="no core"))


def test_a_decoder_is_refused(save):
    with pytest.raises(ConfigError, match=r"tiny is no encoder: .*model prepare"):
        choose_encoder_backend("auto", save(NATIVE_FILE, family="llama"))
