"""Damaged and lying sources: refused in words, quickly, and nothing is made."""

from __future__ import annotations

import json
import struct
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_header import check_header
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.prepare import prepare
from tests.support.tiny_families import save_directory, save_gguf, tiny_model

HUGE = 2**62


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(*, version: int = 3, tensors: int = 0, pairs: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A file with nothing wrong."""
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    save_gguf(tiny_model("llama"), path)
    check_header(path)
    return path


@pytest.mark.parametrize(
    "data",
    [
        header(pairs=HUGE),
        header(tensors=HUGE, pairs=0),
        header() + struct.pack("<Q", HUGE),
        header() + text("a") + struct.pack("<I", 99),
        header() + text("a") + struct.pack("<IQ", 8, HUGE),
        header() + text("a") + struct.pack("<IIQ", 9, 0, HUGE),
        header() + text("a") + struct.pack("<IIQ", 9, 12, 2**61),
        header() + text("a") + struct.pack("<IIQ", 9, 8, HUGE),
        header() + text("a") + struct.pack("<IIQ", 9, 9, 1),
        header(tensors=1, pairs=0) + text("t") + struct.pack("<I", 0),
        header(tensors=1, pairs=0) + text("t") + struct.pack("<I", 2**31),
        header(tensors=1, pairs=0) + text("t") + struct.pack("<IQQIQ", 2, HUGE, HUGE, 0, 0),
        header(tensors=1, pairs=0) + text("t") + struct.pack("<IQIQ", 1, 0, 0, 0),
        header(tensors=1, pairs=0) + text("t") + struct.pack("<IQIQ", 1, 4, 0, HUGE),
    ],
)
def test_length_that_lies_is_refused_before_anything_is_read(tmp_path: Path, data: bytes):
    (tmp_path / "m.gguf").write_bytes(data + bytes(64))
    with pytest.raises(ToolchainError, match="cut or damaged: download it again"):
        open_gguf(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "data",
    [
        header() + text("a") + struct.pack("<IIQ", 9, 0, 2**21 + 1) + bytes(2**21 + 1),
        header(pairs=2**16 + 1) + (text("") + struct.pack("<IB", 0, 0)) * (2**16 + 1),
    ],
)
def test_no_more_is_read_than_any_model_has(tmp_path: Path, data: bytes):
    # The library would take a thousand times the memory of what is there.
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(ToolchainError, match="cut or damaged"):
        check_header(tmp_path / "m.gguf")


@pytest.mark.parametrize("version", [1, 4, 3 << 24])
def test_other_version_or_byte_order_is_refused(tmp_path: Path, version: int):
    (tmp_path / "m.gguf").write_bytes(header(version=version))
    with pytest.raises(ToolchainError, match="version 2 or 3 in little-endian order"):
        open_gguf(tmp_path / "m.gguf")


def test_file_cut_anywhere_is_refused(tmp_path: Path, whole: Path):
    data = whole.read_bytes()
    for length in [*range(0, 200, 7), *range(200, len(data) - 1, len(data) // 60)]:
        (tmp_path / "m.gguf").write_bytes(data[:length])
        with pytest.raises(ToolchainError):
            open_gguf(tmp_path / "m.gguf")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_changed_bytes_are_read_or_refused_in_words(tmp_path_factory, whole: Path, changes):
    data = bytearray(whole.read_bytes())
    for at, value in changes:
        data[at] = value
    path = tmp_path_factory.mktemp("changed") / "m.gguf"
    path.write_bytes(data)
    try:
        source = open_gguf(path)
        for tensor in source.tensors.values():
            tensor.float32()
    except ToolchainError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"block_count": 2**31}, r"num_layers is out of range: whole numbers from 1 to 1024"),
        ({"block_count": 1000}, r"says it has 1000 layers and holds"),
        ({"attention.head_count": 2**31}, "num_heads is out of range"),
        ({"context_length": 2**31}, "max_context_tokens is out of range"),
        ({"feed_forward_length": 2**31}, "intermediate_size is out of range"),
        ({"block_count": None}, r"llama.block_count is missing"),
        ({"attention.head_count": "four"}, r"llama.attention.head_count is missing or not a pos"),
        ({"attention.head_count": 3}, "do not fit together"),
        ({"attention.head_count_kv": 0}, "head_count_kv is missing or not a positive"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, "epsilon is missing or not a pos"),
        ({"rope.freq_base": -1.0}, "freq_base is missing or not a positive"),
        ({"rope.dimension_count": 16}, "rotates only part of a head"),
        ({"attention.value_length": 64}, "values of another size"),
        ({"rope.scaling.type": "longrope"}, "type is 'longrope'; supported: none, linear, yarn"),
        ({"rope.scale_linear": 4.0}, "scale_linear is of old: convert the model again"),
        ({"rope.scaling.type": "linear"}, "rope.scaling.factor is missing"),
        ({"rope.scaling.type": "yarn", "rope.scaling.attn_factor": 2.0}, "attn_factor is not 1"),
        ({"rope.scaling.type": "yarn", "rope.scaling.factor": float("inf")}, "factor is"),
        ({"embedding_length": 96}, r"has shape \[275, 64\], its configuration says \[275, 96\]"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, metadata, told: str):
    save_gguf(tiny_model("llama"), tmp_path / "m.gguf", metadata=metadata)
    with pytest.raises(ToolchainError, match=told):
        prepare(tmp_path / "m.gguf", tmp_path, "m")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_hidden_layers": 10**9}, "num_layers is out of range"),
        ({"num_hidden_layers": 1000}, "says it has 1000 layers"),
        ({"num_hidden_layers": 1.5}, "not a number"),
        ({"num_hidden_layers": True}, "not a number"),
        ({"vocab_size": "275"}, "not a number"),
        ({"vocab_size": 2**70}, "vocab_size is out of range"),
        ({"num_attention_heads": -4}, "num_heads is out of range"),
        ({"num_attention_heads": 0}, "num_heads is out of range"),
        ({"num_key_value_heads": 3}, "do not fit together"),
        ({"rms_norm_eps": float("nan")}, "not a positive number"),
        ({"max_position_embeddings": 0}, "max_context_tokens is out of range"),
        ({"max_position_embeddings": 2**70}, "max_context_tokens is out of range"),
        ({"rms_norm_eps": 1e300}, "not a positive number"),
        ({"rms_norm_eps": True}, "not a number"),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1e300}},
            "attention_factor out of range",
        ),
        ({"rope_parameters": {"rope_type": "linear", "factor": 1e-30}}, "out of range"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 0.0}}, "factor is missing or not"),
        ({"rope_parameters": [1]}, "not a number"),
        ({"rope_parameters": {"rope_theta": []}}, "not a number"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "needs 16 positive factors"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 1e-320}}, "out of range"),
        ({"attention_bias": True}, "attention_bias: not supported"),
        ({"model_type": "mixtral"}, "'mixtral'; supported: llama, mistral, qwen2, qwen3"),
        ({"partial_rotary_factor": 0.5}, "rotates only part of a head"),
    ],
)
def test_configuration_that_cannot_be_is_refused(tmp_path: Path, changes, told: str):
    save_directory(tiny_model("llama"), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ToolchainError, match=told):
        open_directory(tmp_path)


@pytest.mark.parametrize("num_values", [3 * 10**8, 2**31])
def test_size_is_refused_before_memory_is_taken_for_it(tmp_path: Path, num_values: int):
    save_directory(tiny_model("llama"), tmp_path / "source")
    path = tmp_path / "source" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "head_dim": num_values}))
    sizes = {f"attention.{name}_length": num_values for name in ("key", "value")} | {
        "rope.dimension_count": num_values
    }
    save_gguf(tiny_model("llama"), tmp_path / "m.gguf", metadata=sizes)
    for open_source in (
        lambda: open_directory(tmp_path / "source"),
        lambda: open_gguf(tmp_path / "m.gguf"),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(ToolchainError, match="head_dim is out of range"):
                open_source()
            assert tracemalloc.get_traced_memory()[1] < 50_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"merges": ["t h"] * 5 + ["q q"] * 5}, "vocabulary is damaged"),
        ({"merges": ["a", "b c d", ""]}, "vocabulary is damaged"),
        ({"chat_template": 7}, "chat template is broken"),
        ({"chat_template": "{% for"}, "chat template is broken"),
    ],
)
def test_vocabulary_that_cannot_be_is_refused(tmp_path: Path, changes, told: str):
    save_gguf(tiny_model("llama"), tmp_path / "m.gguf", **changes)
    with pytest.raises(ToolchainError, match=told):
        open_gguf(tmp_path / "m.gguf")


NATIVE = pytest.param(
    "native", marks=pytest.mark.skipif(not find_spec("edgelora_native"), reason="no native core")
)


@pytest.mark.parametrize("weights", [NATIVE, "float32"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.layers.1.mlp.up_proj.weight", np.nan),
        ("model.layers.0.self_attn.q_proj.weight", np.inf),
        ("model.norm.weight", np.nan),
        ("model.embed_tokens.weight", -np.inf),
    ],
)
def test_weight_that_is_no_number_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, value: float, weights: str
):
    model = tiny_model("llama")
    with torch.no_grad():
        model.state_dict()[name].view(-1)[3] = value
    save_directory(model, tmp_path / "source")
    with pytest.raises(ToolchainError, match=f"{name} holds NaN or infinity"):
        prepare(tmp_path / "source", tmp_path, "m", weights=weights)
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("weights", [NATIVE])
def test_weight_beyond_half_precision_is_refused_for_the_native_core(tmp_path: Path, weights: str):
    model = tiny_model("llama")
    with torch.no_grad():
        model.state_dict()["model.layers.0.mlp.down_proj.weight"][0, 0] = 1e7
    save_directory(model, tmp_path / "source")
    with pytest.raises(ToolchainError, match=r"down_proj.weight holds values beyond half"):
        prepare(tmp_path / "source", tmp_path, "m", weights=weights)


def test_index_cannot_lead_out_of_the_directory(tmp_path: Path):
    save_directory(tiny_model("llama"), tmp_path / "source")
    weights = tmp_path / "source" / "model.safetensors"
    weights.rename(tmp_path / "outside.safetensors")
    index = {"weight_map": {"model.norm.weight": "../outside.safetensors"}}
    (tmp_path / "source" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ToolchainError, match=r"lacks outside\.safetensors"):
        open_directory(tmp_path / "source")
