"""Encoders on the native core give the vectors of transformers and of PEFT."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from transformers import BertModel

from edgelora.adapter_format import read_encoder_adapter
from edgelora.toolchain.prepare import DEFAULT_ENCODER_SOURCE, known_source, prepare
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderLimits, EncoderText
from services.inference.encoder.native_backend import NativeEncoderBackend
from tests.support.prepared_model import home
from tests.support.tiny_bert import CLASSES, save_tiny_bert

pytestmark = pytest.mark.integration
LEAST_COSINE = 0.999
MODULES = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")
LIMITS = EncoderLimits(max_loras=8, max_lora_rank=8)
TEXTS = (
    "what is the weather in my town",
    "how much do i owe",
    "set an alarm for seven tomorrow morning and turn off the light in the kitchen",
    "book a table for two",
    "play some song louder",
    "who are you",
    "move money from one account to another",
    "where can we eat tonight",
)


def cosines(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    result: NDArray[np.float32] = (ours * theirs).sum(axis=1) / lengths
    return result


def random_texts(vocab_size: int) -> list[NDArray[np.int32]]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, vocab_size, n).astype(np.int32) for n in (1, 5, 16, 17, 33, 12, 9, 48)]


@torch.inference_mode()
def expected(model: Any, texts: Sequence[NDArray[np.int32]], pooling: str) -> NDArray[np.float32]:
    vectors = []
    for ids in texts:
        output = model(torch.from_numpy(ids.astype(np.int64))[None])
        hidden = output.last_hidden_state[0]
        pooled = {"mean": hidden.mean(0), "cls": hidden[0]}
        vectors.append(output.pooler_output[0] if pooling == "pooler" else pooled[pooling])
    return torch.stack(vectors).numpy()


def encoded(
    backend: NativeEncoderBackend,
    texts: Sequence[NDArray[np.int32]],
    pooling: Any = "mean",
    slots: Sequence[int | None] | None = None,
) -> NDArray[np.float32]:
    used = [None] * len(texts) if slots is None else slots
    return backend.encode(
        [
            EncoderText(
                token_ids=ids,
                adapters=() if slot is None else (SlotWeight(slot, 1.0),),
                pooling=pooling,
            )
            for ids, slot in zip(texts, used, strict=True)
        ]
    )


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_checkpoint_of_any_class_gives_the_vectors_of_its_encoder(tmp_path, kind, activation):
    model = save_tiny_bert(tmp_path / "source", kind, hidden_act=activation)
    model = getattr(model, "bert", model)
    prepared = prepare(tmp_path / "source", tmp_path, "m", weights="both")
    backend = NativeEncoderBackend(num_threads=1)
    directory = tmp_path / "models" / "m"
    assert backend.load_model(directory, LIMITS) == prepared
    texts = random_texts(prepared.vocab_size)
    has_pooler = model.pooler is not None
    for pooling in ("mean", "cls", "pooler") if has_pooler else ("mean", "cls"):
        vectors = encoded(backend, texts, pooling)
        assert cosines(vectors, expected(model, texts, pooling)).min() > LEAST_COSINE
    again = BertModel.from_pretrained(directory, add_pooling_layer=has_pooler).eval()
    theirs = expected(model, texts, "mean")
    assert np.abs(expected(again, texts, "mean") - theirs).max() < 1e-5


def adapted(model: Any, directory: Path, modules: Sequence[str], seed: int) -> Any:
    """PEFT's model with random factors, also written into a directory."""
    torch.manual_seed(seed)
    config = LoraConfig(
        task_type="FEATURE_EXTRACTION",
        r=8,
        lora_alpha=8,
        target_modules=list(modules),
        exclude_modules=["pooler.dense"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted: Any = get_peft_model(deepcopy(model), config).eval()
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.08)
        adapted.save_pretrained(str(directory))
    return adapted


def load(backend: NativeEncoderBackend, prepared: Any, directory: Path, slot: int) -> None:
    config, weights = (
        (directory / name).read_bytes()
        for name in ("adapter_config.json", "adapter_model.safetensors")
    )
    adapter = read_encoder_adapter(
        config,
        weights,
        None,
        targets=prepared.targets,
        num_layers=prepared.num_layers,
        hidden_size=prepared.hidden_size,
        max_rank=LIMITS.max_lora_rank,
    )
    backend.load_adapter(slot, adapter.weights)


def test_adapters_of_every_module_in_one_batch_give_what_peft_gives(tmp_path):
    model = save_tiny_bert(tmp_path / "source")
    prepared = prepare(tmp_path / "source", tmp_path, "m")
    backend = NativeEncoderBackend(num_threads=2)
    backend.load_model(tmp_path / "models" / "m", LIMITS)
    texts = random_texts(prepared.vocab_size)[1:]
    base = expected(model, texts, "mean")
    kinds = [[module] for module in MODULES] + [list(MODULES)]
    theirs = []
    for slot, modules in enumerate(kinds):
        peft = adapted(model, tmp_path / str(slot), modules, slot)
        load(backend, prepared, tmp_path / str(slot), slot)
        theirs.append(expected(peft, texts[slot : slot + 1], "mean")[0])
    ours = encoded(backend, texts, slots=range(len(kinds)))
    assert cosines(ours, np.array(theirs)).min() > LEAST_COSINE
    # What the adapters change, not only what the base says.
    change, wanted = ours - encoded(backend, texts), np.array(theirs) - base
    assert cosines(change, wanted).min() > 0.97
    for slot, text in enumerate(texts):
        assert np.array_equal(encoded(backend, [text], slots=[slot])[0], ours[slot])


def test_the_default_encoder_is_as_good_as_in_fp32():
    prepared = prepare(DEFAULT_ENCODER_SOURCE, home(), weights="both")
    assert (prepared.name, prepared.pooling) == ("all-minilm-l6-v2", "mean")
    assert known_source(prepared) == DEFAULT_ENCODER_SOURCE
    directory = home() / "models" / prepared.name
    backend = NativeEncoderBackend(num_threads=2)
    backend.load_model(directory, LIMITS)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    texts = [np.array(tokenizer.encode(text).ids, dtype=np.int32) for text in TEXTS]
    model = BertModel.from_pretrained(directory).eval()
    assert cosines(encoded(backend, texts), expected(model, texts, "mean")).min() > LEAST_COSINE
