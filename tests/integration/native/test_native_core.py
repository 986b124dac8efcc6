"""The native core: right numbers, the same bits on every instruction set and in any company."""

import platform
from pathlib import Path

import numpy as np
import pytest

from tests.support import native_core

INSTRUCTION_SETS = {
    "x86_64": ["avx512-vnni", "avx2-vnni", "avx2"],
    "aarch64": ["neon-dotprod"],
}


ERRORS = {"plain": 0.03, "symmetric": 0.03, "half": 0.001}
"""Of the logits: 8-bit activations, or bfloat16 weights with activations as they are."""


plain = pytest.mark.parametrize("kinds", ["plain"], indirect=True)


@pytest.fixture(scope="module", params=ERRORS)
def kinds(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def portable(package, kinds, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("portable")
    assert native_core.probe(package, folder, "portable", kinds) is None
    return folder


@pytest.fixture(scope="module")
def logits(portable):
    return np.load(portable / "logits.npz")


def test_logits_are_those_of_transformers_within_the_error_of_activations(portable, logits, kinds):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
    )
    torch.set_num_threads(1)
    model = LlamaForCausalLM(config).eval()
    weights = {
        name: torch.from_numpy(value) for name, value in np.load(portable / "weights.npz").items()
    }
    model.load_state_dict(weights | {"lm_head.weight": weights["model.embed_tokens.weight"]})
    with torch.inference_mode():
        expected = model(torch.from_numpy(logits["prompt"])[None]).logits[0, -1].numpy()
    error = np.linalg.norm(logits["whole"][0] - expected) / np.linalg.norm(expected)
    assert error < ERRORS[kinds]


@pytest.mark.parametrize("way", ["mixed_whole", "chunked", "one_by_one", "unloaded"])
def test_a_row_is_the_same_bits_alone_and_in_any_company(logits, way):
    np.testing.assert_array_equal(logits[way], logits["whole"])


def test_weighted_adapters_are_the_same_bits_in_a_mixed_batch(logits):
    np.testing.assert_array_equal(logits["mixed_adapters"], logits["adapters"])
    assert not np.allclose(logits["adapters"], logits["whole"], atol=1e-2)


@plain
@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS.get(platform.machine(), []))
def test_every_instruction_set_gives_the_same_bits(package, logits, tmp_path, instruction_set):
    if native_core.probe(package, tmp_path, instruction_set) is not None:
        pytest.skip(f"this processor lacks {instruction_set}")
    others = np.load(tmp_path / "logits.npz")
    for name in logits.files:
        np.testing.assert_array_equal(others[name], logits[name])


@plain
def test_a_batch_that_does_not_fit_is_refused_with_a_reason(portable):
    lines = (portable / "refusals.txt").read_text().splitlines()
    assert len(lines) == 10
    assert all(line.split(": ", 1)[1] for line in lines)


@plain
@pytest.mark.parametrize("size", [0, 7, 63, 100, 5000])
def test_a_cut_file_is_refused(package, portable, tmp_path, size):
    cut = tmp_path / "cut"
    cut.write_bytes((portable / "model.edgelora").read_bytes()[:size])
    said = native_core.refusal(package, cut)
    assert "prepare the model again" in said


def test_a_foreign_file_is_refused(package, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"GGUF" + bytes(5000))
    assert "no packed model file" in native_core.refusal(package, foreign)
