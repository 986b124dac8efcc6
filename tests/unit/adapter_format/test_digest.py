"""Identity of adapters."""

import hashlib

import pytest

from edgelora.adapter_format import adapter_digest, combine_digest, is_digest, parse_adapter_config
from tests.support.adapter_files import config_bytes


def config(**changes):
    return parse_adapter_config(config_bytes(**changes), max_rank=64)


def test_same_content_is_the_same_adapter_whatever_it_is_called_A08():
    assert adapter_digest(config(), b"w") == adapter_digest(config(revision="main"), b"w")


@pytest.mark.parametrize(
    "changes",
    [{"r": 2}, {"lora_alpha": 9}, {"use_rslora": True}, {"alpha_pattern": {"q_proj": 3}}],
)
def test_what_changes_the_output_changes_the_digest(changes):
    assert adapter_digest(config(), b"w") != adapter_digest(config(**changes), b"w")


def test_weights_change_the_digest():
    assert adapter_digest(config(), b"w") != adapter_digest(config(), b"v")


def test_hashing_while_writing_gives_the_same_digest():
    assert combine_digest(
        config().canonical_bytes(), hashlib.sha256(b"w").digest()
    ) == adapter_digest(config(), b"w")


def test_form():
    assert is_digest(adapter_digest(config(), b"w"))
    for text in (
        "",
        "sha256:",
        "sha256:" + "g" * 64,
        "sha256:" + "A" * 64,
        "sha256:" + "a" * 64 + "\n",
    ):
        assert not is_digest(text)
