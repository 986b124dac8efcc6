"""Preparation of the real model, and of small ones of every kind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LlamaForCausalLM

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.prepare import list_models, prepare
from edgelora.toolchain.wheel import GGUF_SHA256, default_gguf
from services.chassis.base_model import BaseModel
from tests.support.prepared_model import home, prepared_model
from tests.support.tiny_llama import save_tiny_llama

pytestmark = pytest.mark.integration

TEXTS = (
    "Hello world, this is a test of 12345 tokens and 3.14!",
    "  leading spaces\n\n\tand tabs  ",
    "naïve café, Ünïcode, 你好, 🙂 and \u200b",
    "<|im_start|>user\nWhat's up?<|im_end|>\n<|im_start|>assistant\n",
    "don't we'll I'm CAN'T def f(x):\n    return x ** 2  # comment",
)


@pytest.fixture(scope="module")
def model() -> Path:
    return prepared_model()


@pytest.fixture(scope="module")
def gguf_path(model: Path) -> Path:
    return default_gguf(home() / "cache")


def test_description_matches_the_weights(model: Path) -> None:
    description = BaseModel.load(model)
    assert description.digest == f"sha256:{GGUF_SHA256}"
    for name in description.files:
        description.verify_file(model, name)
    assert "model.safetensors" in description.files
    assert description.family == "llama"
    assert (description.vocab_size, description.hidden_size, description.num_layers) == (
        49152,
        576,
        30,
    )
    assert description.max_context_tokens == 8192
    weights = safetensors.torch.load_file(model / "model.safetensors")
    for name, shape in description.targets.items():
        (found,) = [
            key for key in weights if key.endswith(f"layers.29.{_block(name)}.{name}.weight")
        ]
        assert tuple(weights[found].shape) == shape
        assert weights[found].dtype == torch.float32


def _block(name: str) -> str:
    return "self_attn" if name in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"


def test_logits_equal_those_of_transformers_own_gguf_loader(model: Path, gguf_path: Path) -> None:
    torch.set_num_threads(1)
    ours = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32, local_files_only=True)
    theirs = LlamaForCausalLM.from_pretrained(
        gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32, local_files_only=True
    )
    ids = torch.tensor([[1, 4093, 198, 504, 3575, 282, 4649, 314, 2, 198]])
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)


def test_token_ids_equal_those_of_transformers_own_gguf_loader(
    model: Path, gguf_path: Path
) -> None:
    ours = Tokenizer.from_file(str(model / "tokenizer.json"))
    theirs = AutoTokenizer.from_pretrained(
        gguf_path.parent, gguf_file=gguf_path.name, local_files_only=True
    )
    for text in TEXTS:
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.decode(ids, skip_special_tokens=False) == text


def test_tokenizer_config_holds_what_serving_needs(model: Path) -> None:
    config = json.loads((model / "tokenizer_config.json").read_text())
    assert config["eos_token"] == "<|im_end|>"
    assert "add_generation_prompt" in config["chat_template"]
    assert config["model_max_length"] == 8192
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_wheel_source_is_the_pinned_file(gguf_path: Path) -> None:
    with gguf_path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == GGUF_SHA256


@pytest.mark.parametrize(
    ("dtype", "tied", "shard_size"),
    [
        (torch.float32, True, "5GB"),
        (torch.bfloat16, False, "5GB"),
        (torch.float16, False, "2MB"),
    ],
)
def test_hugging_face_directory_keeps_its_logits(
    tmp_path: Path, dtype: torch.dtype, tied: bool, shard_size: str
) -> None:
    source = tmp_path / "source"
    save_tiny_llama(source, dtype=dtype, tied=tied, shard_size=shard_size)
    original = LlamaForCausalLM.from_pretrained(source, dtype=torch.float32, local_files_only=True)
    description = prepare(source, tmp_path, "tiny", weights="float32")
    assert description.targets["k_proj"] == (64, 64)
    assert list_models(tmp_path) == [description]
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "models" / "tiny", local_files_only=True)
    ids = torch.arange(40, 60)[None]
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, original(ids).logits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_bias": True}, "attention_bias: not supported"),
        ({"hidden_act": "gelu"}, "hidden_act must be 'silu'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "low_freq_factor is missing"),
        ({"rope_parameters": {"rope_type": "su"}}, "type 'su' is not supported"),
        ({"num_attention_heads": "four"}, "not a number"),
        ({"num_attention_heads": [4]}, "not a number"),
        ({"intermediate_size": 64}, r"\[96, 64\], its configuration says \[64, 64\]"),
        ({"num_hidden_layers": 3}, r"lacks tensor 'model\.layers\.2"),
        ({"num_hidden_layers": 1}, r"does not know, for example 'model\.layers\.1"),
        ({"vocab_size": 40000}, "49152 tokens, the model only 40000"),
    ],
)
def test_model_that_is_not_what_it_says_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    save_tiny_llama(tmp_path / "source", **changes)
    with pytest.raises(ToolchainError, match=message):
        prepare(tmp_path / "source", tmp_path, "tiny")
    assert list((tmp_path / "models").iterdir()) == []


def test_cut_gguf_is_refused(tmp_path: Path, gguf_path: Path) -> None:
    with gguf_path.open("rb") as file:
        (tmp_path / "cut.gguf").write_bytes(file.read(20_000_000))
    with pytest.raises(ToolchainError, match="cut or damaged"):
        open_gguf(tmp_path / "cut.gguf")


def test_replace_exchanges_the_model(tmp_path: Path) -> None:
    save_tiny_llama(tmp_path / "one")
    first = prepare(tmp_path / "one", tmp_path, "tiny")
    save_tiny_llama(tmp_path / "two", tied=False)
    second = prepare(tmp_path / "two", tmp_path, "tiny", replace=True)
    assert first.digest != second.digest
    assert list_models(tmp_path) == [second]
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny"]


PREPARE = """
import sys
from pathlib import Path
from edgelora.toolchain.prepare import prepare
try:
    prepare(Path(sys.argv[1]), Path(sys.argv[2]), "m", weights="float32")
except KeyboardInterrupt:
    sys.exit(130)
"""


def _stop_while_writing(source: Path, target_home: Path, signum: int) -> int:
    process = subprocess.Popen([sys.executable, "-c", PREPARE, str(source), str(target_home)])
    weights = target_home / "models" / ".m.partial" / ".model.safetensors.partial"
    deadline = time.monotonic() + 60
    while not (weights.exists() and weights.stat().st_size > 1_000_000):
        assert process.poll() is None, "preparation ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signum)
    return process.wait(30)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_stopped_preparation_leaves_nothing(tmp_path: Path, gguf_path: Path, signum: int) -> None:
    assert _stop_while_writing(gguf_path, tmp_path, signum) == 130
    assert list((tmp_path / "models").iterdir()) == []


def test_killed_preparation_leaves_no_model_and_no_lock(tmp_path: Path, gguf_path: Path) -> None:
    assert _stop_while_writing(gguf_path, tmp_path, signal.SIGKILL) == -signal.SIGKILL
    assert list_models(tmp_path) == []
    save_tiny_llama(tmp_path / "source")
    description = prepare(tmp_path / "source", tmp_path, "m")
    assert list_models(tmp_path) == [description]
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["m"]


def test_rotary_row_order_is_undone_per_head(gguf_path: Path) -> None:
    """One wrong head count would shuffle rows silently: the key heads are fewer."""
    source = open_gguf(gguf_path)
    shape = source.shape
    assert (shape.num_heads, shape.num_kv_heads, shape.head_dim) == (9, 3, 64)
    tensor = source.tensors["model.layers.0.self_attn.k_proj.weight"]
    values = tensor.float32()
    raw = dataclasses.replace(tensor, order=None).float32()
    for head in range(3):
        ours = values[64 * head : 64 * (head + 1)]
        theirs = raw[64 * head : 64 * (head + 1)]
        assert np.array_equal(ours[:32], theirs[0::2])
        assert np.array_equal(ours[32:], theirs[1::2])
