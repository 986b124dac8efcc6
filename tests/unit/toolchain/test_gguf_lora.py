"""An adapter as GGUF: what llama.cpp makes of the file is what the adapter adds."""

import gguf
import numpy as np
import pytest

from edgelora.adapter_format import AdapterWeights, LoraPair
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_lora import write_gguf_lora

NUM_HEADS, NUM_KV_HEADS, HEAD = 4, 2, 8
HIDDEN, FORWARD = NUM_HEADS * HEAD, 48
TARGETS = {
    "q_proj": (HIDDEN, HIDDEN),
    "k_proj": (NUM_KV_HEADS * HEAD, HIDDEN),
    "v_proj": (NUM_KV_HEADS * HEAD, HIDDEN),
    "o_proj": (HIDDEN, HIDDEN),
    "gate_proj": (FORWARD, HIDDEN),
    "up_proj": (FORWARD, HIDDEN),
    "down_proj": (HIDDEN, FORWARD),
}
NAMES = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip
ALPHA = 6.0


def random_weights(scale=0.1):
    """Every module of two layers, each with a rank and a scaling of its own."""
    rng = np.random.default_rng(3)
    pairs = {}
    for layer in (1, 0):
        for index, (module, (rows, columns)) in enumerate(TARGETS.items()):
            rank = 2 + index + layer
            a = (scale * rng.standard_normal((rank, columns))).astype(np.float32)
            b = (scale * rng.standard_normal((rows, rank))).astype(np.float32)
            pairs[layer, module] = LoraPair(a, b, (5 + index) / rank**0.5)
    return AdapterWeights(pairs)


def write(target, weights=None, family="llama", alpha=ALPHA, **options):
    write_gguf_lora(
        target,
        weights or random_weights(),
        alpha=alpha,
        family=family,
        num_heads=NUM_HEADS,
        num_kv_heads=NUM_KV_HEADS,
        **options,
    )
    return gguf.GGUFReader(target)


def updates(reader):
    """What llama.cpp adds to each matrix: alpha over the rank of the factors, times B A."""
    stored = {tensor.name: np.array(tensor.data, np.float64) for tensor in reader.tensors}
    alpha = reader.fields["adapter.lora.alpha"].contents()
    found = {}
    for layer in range(2):
        for module, name in NAMES.items():
            a, b = (stored.pop(f"blk.{layer}.{name}.weight.lora_{end}") for end in "ab")
            assert a.shape[0] == b.shape[1]
            found[layer, module] = alpha / a.shape[0] * b @ a
    assert stored == {}
    return found


def rotary_pairs(rows, heads):
    """Rows in the order of llama.cpp's converter: those that rotate together are neighbours."""
    first, second = np.split(rows.reshape(heads, -1, rows.shape[1]), 2, axis=1)
    return np.stack([first, second], axis=2).reshape(rows.shape)


@pytest.mark.parametrize(
    ("family", "architecture"),
    [("llama", "llama"), ("mistral", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")],
)
def test_every_rank_and_scaling_is_what_llama_cpp_computes(tmp_path, family, architecture):
    reader = write(tmp_path / "a.gguf", family=family)
    told = {name: field.contents() for name, field in reader.fields.items()}
    assert told["general.architecture"] == architecture
    assert told["general.type"] == "adapter"
    assert told["adapter.type"] == "lora"
    found = updates(reader)
    heads = {"q_proj": NUM_HEADS, "k_proj": NUM_KV_HEADS} if architecture == "llama" else {}
    for key, pair in random_weights().pairs.items():
        expected = pair.scaling * pair.lora_b.astype(np.float64) @ pair.lora_a
        if key[1] in heads:
            expected = rotary_pairs(expected, heads[key[1]])
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=1e-6)


def test_plain_factors_are_kept_bit_for_bit_and_modules_may_be_absent(tmp_path):
    pair = random_weights().pairs[1, "down_proj"]
    scaling = 16 / pair.lora_a.shape[0]
    weights = AdapterWeights({(1, "down_proj"): LoraPair(pair.lora_a, pair.lora_b, scaling)})
    reader = write(tmp_path / "a.gguf", weights, alpha=16.0)
    stored = {tensor.name: tensor.data for tensor in reader.tensors}
    assert stored.keys() == {"blk.1.ffn_down.weight.lora_a", "blk.1.ffn_down.weight.lora_b"}
    np.testing.assert_array_equal(stored["blk.1.ffn_down.weight.lora_a"], pair.lora_a)
    np.testing.assert_array_equal(stored["blk.1.ffn_down.weight.lora_b"], pair.lora_b)


def test_equal_adapters_make_equal_bytes(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_half_precision_is_half_as_large_and_near(tmp_path):
    write(tmp_path / "single")
    reader = write(tmp_path / "half", half=True)
    assert {tensor.tensor_type.name for tensor in reader.tensors} == {"F16"}
    sizes = [
        sum(t.n_bytes for t in gguf.GGUFReader(tmp_path / n).tensors) for n in ("half", "single")
    ]
    assert 2 * sizes[0] == sizes[1]
    exact = updates(gguf.GGUFReader(tmp_path / "single"))
    for key, update in updates(reader).items():
        assert np.abs(update - exact[key]).max() < 2e-3 * np.abs(exact[key]).max()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 1e-50}, "lora_alpha does not fit"),
        ({"weights": random_weights(scale=1e5), "half": True}, "without --half"),
        ({"weights": random_weights(scale=1e19), "alpha": 1e-30}, "lower lora_alpha"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(tmp_path, changes, words):
    with pytest.raises(ToolchainError, match=words):
        write(tmp_path / "a.gguf", **changes)
