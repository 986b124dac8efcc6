"""What peers read: random adapters, and random models as GGUF."""

import json

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from bench.adapters import write_random_adapter
from bench.peers.child import rows_by_adapter
from bench.random_gguf import write_random_gguf
from bench.shapes import DecoderShape
from edgelora.toolchain.gguf_source import open_gguf
from services.chassis.base_model import BaseModel

NUM_HEADS, NUM_KV_HEADS, HEAD = 4, 2, 64
HIDDEN, FORWARD = NUM_HEADS * HEAD, 512


@pytest.fixture
def model():
    kv = NUM_KV_HEADS * HEAD
    targets = {
        "q_proj": (HIDDEN, HIDDEN),
        "k_proj": (kv, HIDDEN),
        "v_proj": (kv, HIDDEN),
        "o_proj": (HIDDEN, HIDDEN),
        "gate_proj": (FORWARD, HIDDEN),
        "up_proj": (FORWARD, HIDDEN),
        "down_proj": (HIDDEN, FORWARD),
    }
    return BaseModel(
        name="m",
        digest="sha256:" + "0" * 64,
        family="llama",
        vocab_size=64,
        hidden_size=HIDDEN,
        num_layers=2,
        max_context_tokens=128,
        targets=targets,
        files={},
    )


def test_adapters_change_the_seed_and_the_strength(model, tmp_path):
    def norm_of_b(name, **options):
        path = write_random_adapter(
            tmp_path / name, model, rank=4, modules=["v_proj"], seed=1, **options
        )
        tensors = load_file(path / "adapter_model.safetensors")
        return np.concatenate([v.ravel() for k, v in tensors.items() if "lora_B" in k]).std()

    assert norm_of_b("strong", b_std=0.1) == pytest.approx(5 * norm_of_b("weak"), rel=0.01)


@pytest.mark.parametrize(("hidden", "embedding"), [(256, "Q6_K"), (320, "Q8_0")])
def test_random_models_are_read_like_any_other(tmp_path, hidden, embedding):
    vocabulary = tmp_path / "vocabulary.gguf"
    write_vocabulary(vocabulary)
    target = tmp_path / "random.gguf"
    shape = DecoderShape(
        hidden_size=hidden, num_layers=2, num_heads=5, num_kv_heads=5, feed_forward_size=64
    )
    if hidden == 256:
        shape = DecoderShape(
            hidden_size=hidden, num_layers=2, num_heads=4, num_kv_heads=2, feed_forward_size=64
        )
    write_random_gguf(target, shape, vocabulary=vocabulary, seed=3)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(target).tensors}
    assert kinds["token_embd.weight"] == embedding
    assert kinds["blk.1.ffn_down.weight"] == "Q4_0"
    for tensor in gguf.GGUFReader(target).tensors:
        if kinds[tensor.name] != "F32":
            weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert weights.std() == pytest.approx(0.02, rel=0.15), tensor.name
    source = open_gguf(target)
    assert source.shape.num_layers == 2
    assert source.shape.hidden_size == hidden
    assert source.shape.tied_embeddings
    assert not list(tmp_path.glob("*.part"))


def write_vocabulary(path):
    tokens = [chr(65 + index) for index in range(60)] + ["<|end|>", "<|pad|>", "ab", "bc"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges(["a b", "b c"])
    writer.add_eos_token_id(60)
    writer.add_pad_token_id(61)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_streams_of_one_adapter_run_together():
    assert rows_by_adapter([0, 1, None, 0, 1]) == [(0, [0, 3]), (1, [1, 4]), (None, [2])]


def test_the_config_of_an_adapter_scales_by_one(model, tmp_path):
    path = write_random_adapter(tmp_path / "a", model, rank=8, modules=["q_proj"], seed=1)
    config = json.loads((path / "adapter_config.json").read_text())
    assert config["lora_alpha"] == config["r"] == 8
