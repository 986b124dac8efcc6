"""Every family and rotary variant, prepared from both formats, beside transformers.

The torch back end is held to the original weights within 1e-4 of logits that span about 10. The
native core is held, in relative norm, to transformers run with the weights its own file stands for
and with its roundings (inputs of products to 8 bit, keys and values to half precision): they agree
within 1e-6 until a value falls on the other side of a rounding, which costs up to 1.2 % in the mean
here. Leaving out a bias, a norm or the rotary scaling moves the logits by far more.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from edgelora.adapter_format import AdapterWeights
from edgelora.toolchain.prepare import prepare
from services.inference.backends.base import Backend, BackendLimits
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.torch_backend import TorchBackend
from tests.support import tiny_families
from tests.support.backend_streams import BLOCK_SIZE, Stream, give_blocks, random_tokens, use
from tests.support.peft_adapters import ATTENTION, peft_logits, read, save_adapters
from tests.support.tiny_families import CONTEXT, VOCAB_SIZE, save_directory, save_gguf, tiny_model

pytest.importorskip("edgelora_native", reason="run `make native` first")
from tests.support import rounded_model

pytestmark = pytest.mark.integration

TORCH_TOLERANCE = 1e-4
NATIVE_TOLERANCE = 0.02
ADAPTER_TOLERANCE = 0.05
"""The native core also keeps an adapter's factors in 8 bit."""
PREFILLED = 90
LIMITS = BackendLimits(num_kv_blocks=8, block_size=BLOCK_SIZE, max_loras=1, max_lora_rank=4)

LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
MANY_YARN = {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 1.0, "mscale_all_dim": 0.5}


@dataclass(frozen=True)
class Variant:
    """A model, and the numbers that its GGUF file has beside the usual ones."""

    family: str
    rope: dict[str, Any] | None = None
    tied: bool = True
    metadata: dict[str, Any] | None = None

    def model(self) -> PreTrainedModel:
        return tiny_model(self.family, rope=self.rope, tied=self.tied)


GGUF_YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 32,
}
BOTH_FORMATS = {
    "llama": Variant("llama"),
    "llama, own head": Variant("llama", tied=False),
    "llama, linear": Variant(
        "llama", LINEAR, metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    ),
    "llama, yarn": Variant("llama", YARN, metadata=GGUF_YARN),
    "qwen2": Variant("qwen2"),
    "qwen2, own head, yarn": Variant("qwen2", YARN, tied=False, metadata=GGUF_YARN),
    "qwen3": Variant("qwen3"),
    "qwen3, yarn": Variant("qwen3", YARN, metadata=GGUF_YARN),
}
VARIANTS = {
    **BOTH_FORMATS,
    "llama, llama3": Variant("llama", LLAMA3),
    "llama, dynamic": Variant("llama", {"rope_type": "dynamic", "factor": 2.0}),
    "mistral": Variant("mistral", tied=False),
    "qwen2, yarn with every number": Variant("qwen2", MANY_YARN),
}
PLAIN = {"llama", "llama, own head", "llama, dynamic", "mistral"}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logits_of(
    backend: Backend, directory: Path, prompt: np.ndarray, adapter: AdapterWeights | None = None
) -> np.ndarray:
    """Logits after a prefill and after every token that follows."""
    backend.load_model(directory, LIMITS)
    stream = Stream(prompt)
    if adapter is not None:
        backend.load_adapter(0, adapter)
        stream.adapters = use(0)
    give_blocks([stream], len(prompt))
    pieces = [prompt[:PREFILLED], *np.split(prompt[PREFILLED:], len(prompt) - PREFILLED)]
    return np.concatenate([backend.forward([stream.chunk(piece)]) for piece in pieces])


@torch.inference_mode()
def expected_logits(model: PreTrainedModel, prompt: np.ndarray) -> np.ndarray:
    ids = torch.from_numpy(prompt).long()[None]
    return model(ids).logits[0, PREFILLED - 1 :].numpy()


@torch.no_grad()
def add_adapter(model: PreTrainedModel, adapter: AdapterWeights) -> None:
    for (layer, module), pair in adapter.pairs.items():
        block = model.model.layers[layer]
        parent = block.self_attn if module in ATTENTION else block.mlp
        update = torch.from_numpy(pair.lora_b) @ torch.from_numpy(pair.lora_a)
        getattr(parent, module).weight += pair.scaling * update


def check_torch(directory: Path, model: PreTrainedModel) -> None:
    prompt = random_tokens(CONTEXT, VOCAB_SIZE)
    actual = logits_of(TorchBackend(num_threads=1), directory, prompt)
    assert np.abs(actual - expected_logits(model, prompt)).max() < TORCH_TOLERANCE


def check_native(
    directory: Path, model: PreTrainedModel, adapter: AdapterWeights | None = None
) -> None:
    """Puts the packed weights, and the adapter, into `model`."""
    prompt = random_tokens(CONTEXT, VOCAB_SIZE)
    actual = logits_of(NativeBackend(num_threads=1), directory, prompt, adapter)
    assert actual.shape == (CONTEXT - PREFILLED + 1, VOCAB_SIZE)
    rounded_model.load_packed(model, directory / "model.edgelora")
    if adapter is not None:
        add_adapter(model, adapter)
    rounded_model.round_as_the_core(model)
    expected = expected_logits(model, prompt)
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert errors.mean() < (NATIVE_TOLERANCE if adapter is None else ADAPTER_TOLERANCE)


@pytest.mark.parametrize("name", VARIANTS)
def test_hugging_face_directory_serves_what_transformers_computes(name: str, tmp_path: Path):
    variant = VARIANTS[name]
    model = variant.model()
    save_directory(model, tmp_path / "source")
    description = prepare(tmp_path / "source", tmp_path, "m", weights="both")
    assert (description.family, description.vocab_size) == (variant.family, VOCAB_SIZE)
    check_torch(tmp_path / "models/m", model)
    check_native(tmp_path / "models/m", model)


@pytest.mark.parametrize("name", BOTH_FORMATS)
def test_gguf_file_gives_the_weights_of_the_directory(name: str, tmp_path: Path):
    variant = BOTH_FORMATS[name]
    model = variant.model()
    save_directory(model, tmp_path / "source")
    save_gguf(model, tmp_path / "m.gguf", metadata=variant.metadata)
    from_gguf = prepare(tmp_path / "m.gguf", tmp_path, "gguf", weights="both")
    from_directory = prepare(tmp_path / "source", tmp_path, "directory", weights="both")
    assert from_gguf.files == from_directory.files
    assert from_gguf.targets == from_directory.targets
    assert from_gguf.digest != from_directory.digest
    check_torch(tmp_path / "models/gguf", model)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_adapter_of_every_family_equals_peft(family: str, tmp_path: Path):
    model = tiny_model(family)
    save_directory(model, tmp_path / "source")
    description = prepare(tmp_path / "source", tmp_path, "m", weights="both")
    directory = tmp_path / "models/m"
    (path,) = save_adapters(directory, tmp_path, [{"r": 4, "lora_alpha": 8}])
    adapter = read(path, description)
    prompt = random_tokens(CONTEXT, VOCAB_SIZE)
    expected = peft_logits(directory, path, prompt)[PREFILLED - 1 :]
    base = expected_logits(model, prompt)
    assert np.linalg.norm(expected - base) > 5 * ADAPTER_TOLERANCE * np.linalg.norm(expected)
    actual = logits_of(TorchBackend(num_threads=1), directory, prompt, adapter)
    assert np.abs(actual - expected).max() < TORCH_TOLERANCE
    check_native(directory, model, adapter)


def test_gguf_file_with_frequency_factors_serves_llama_3_1(tmp_path: Path):
    model = tiny_model("llama", rope=LLAMA3)
    factors = tiny_families.llama3_factors(10000.0, LLAMA3)
    save_gguf(model, tmp_path / "m.gguf", rope_factors=factors)
    prepare(tmp_path / "m.gguf", tmp_path, "m", weights="both")
    check_torch(tmp_path / "models/m", model)
    check_native(tmp_path / "models/m", model)


def test_mistral_gguf_file_is_a_llama(tmp_path: Path):
    model = tiny_model("mistral")
    save_gguf(model, tmp_path / "m.gguf")
    assert prepare(tmp_path / "m.gguf", tmp_path, "m", weights="both").family == "llama"
    check_torch(tmp_path / "models/m", model)


# Dynamic scaling is none within the trained context, and no more is served.
@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - PLAIN))
def test_a_variant_that_was_ignored_would_be_noticed(name: str):
    """The bounds above mean something: the plain decoder's logits are far from these."""
    variant = VARIANTS[name]
    prompt = random_tokens(CONTEXT, VOCAB_SIZE)
    model = variant.model()
    expected = expected_logits(model, prompt)
    plain = tiny_model("llama", tied=variant.tied)
    plain.load_state_dict(model.state_dict(), strict=False)
    actual = expected_logits(plain, prompt)
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert errors.mean() > 3 * NATIVE_TOLERANCE


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("mistral", {"sliding_window": 48}),
        ("qwen2", {"sliding_window": 48, "use_sliding_window": True, "max_window_layers": 1}),
    ],
)
def test_context_ends_where_attention_would_slide(family: str, changes, tmp_path: Path, capfd):
    model = tiny_model(family, **changes)
    save_directory(model, tmp_path / "source")
    description = prepare(tmp_path / "source", tmp_path, "m", weights="float32")
    assert description.max_context_tokens == 48
    assert "context is limited to the model's sliding window, 48 tokens" in capfd.readouterr().err
    prompt = random_tokens(48, VOCAB_SIZE)
    backend = TorchBackend(num_threads=1)
    backend.load_model(tmp_path / "models/m", LIMITS)
    stream = Stream(prompt)
    give_blocks([stream], 48)
    actual = backend.forward([stream.chunk(prompt)])[0]
    with torch.inference_mode():
        expected = model(torch.from_numpy(prompt).long()[None]).logits[0, -1].numpy()
    assert np.abs(actual - expected).max() < TORCH_TOLERANCE


def test_window_that_is_switched_off_limits_nothing(tmp_path: Path):
    model = tiny_model("qwen2", sliding_window=48, use_sliding_window=False)
    save_directory(model, tmp_path / "source")
    description = prepare(tmp_path / "source", tmp_path, "m", weights="float32")
    assert description.max_context_tokens == CONTEXT


def test_window_of_a_gguf_file_limits_the_context(tmp_path: Path):
    save_gguf(tiny_model("qwen3"), tmp_path / "m.gguf", metadata={"attention.sliding_window": 48})
    description = prepare(tmp_path / "m.gguf", tmp_path, "m", weights="float32")
    assert description.max_context_tokens == 48
