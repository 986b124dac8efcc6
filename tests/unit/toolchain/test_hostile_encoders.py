"""Directories of encoders whose small files are damaged or lie: refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_source import open_directory
from tests.support.adapter_files import safetensors_bytes
from tests.support.tiny_encoder import save_tiny_source, tiny_tokenizer, tiny_weights

WEIGHTS = "model.safetensors"
QUERY = "encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def change(tmp_path: Path) -> Callable[..., None]:
    """Replaces fields of a JSON file of the directory; of one inside of it, when `inside` says."""
    save_tiny_source(tmp_path)

    def change(name: str, inside: str | None = None, **fields: object) -> None:
        path = tmp_path / name
        document: dict[str, Any] = json.loads(path.read_text())
        (document if inside is None else document[inside]).update(fields)
        path.write_text(json.dumps(document))

    return change


def refused(directory: Path, told: str) -> None:
    with pytest.raises(ToolchainError, match=told):
        open_directory(directory)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("layer_norm_eps", 10**400, "layer_norm_eps"),
        ("layer_norm_eps", float("nan"), "layer_norm_eps"),
        ("layer_norm_eps", True, "layer_norm_eps"),
        ("layer_norm_eps", 0, "epsilon"),
        ("layer_norm_eps", -(10**400), "epsilon|layer_norm_eps"),
        ("num_hidden_layers", 10**9, "num_layers"),
        ("num_hidden_layers", 3, "lacks tensor"),
        ("num_attention_heads", 0, "num_heads"),
        ("hidden_act", ["gelu"], "hidden_act"),
        ("is_decoder", True, "decodes"),
        ("vocab_size", 10, "tokens"),
        ("max_position_embeddings", 2, "no room"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path, change, name, value, told):
    change("config.json", **{name: value})
    refused(tmp_path, told)


@pytest.mark.parametrize("ends", [{"cls": ["[CLS]", 99_999]}, {"sep": ["[CLS]", 2]}])
def test_tokenizer_that_puts_other_tokens_around_a_text_is_refused(tmp_path, change, ends):
    change("tokenizer.json", "post_processor", **ends)
    refused(tmp_path, "cls_token before a text")


def test_tokenizer_that_puts_nothing_around_a_text_is_refused(tmp_path, change):
    change("tokenizer.json", post_processor=None)
    refused(tmp_path, "cls_token before a text")


@pytest.mark.usefixtures("change")
def test_pickled_weights_are_never_opened(tmp_path):
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02cposix\n_exit\nK\x01\x85R.")
    refused(tmp_path, "pickle files are never opened")


@pytest.mark.usefixtures("change")
@pytest.mark.parametrize(
    ("values", "told"),
    [(None, "lacks tensor"), (np.ones((32, 64), "<f4"), "has shape"), (np.ones(3, "<f4"), "shape")],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path, values, told):
    tensors = tiny_weights(tiny_tokenizer().get_vocab_size())
    if values is None:
        del tensors[QUERY]
    else:
        tensors[QUERY] = values
    (tmp_path / WEIGHTS).write_bytes(safetensors_bytes(tensors))
    refused(tmp_path, told)
