"""Logits equal those of transformers + PEFT in float32, within 1e-4, for every adapter feature."""

from __future__ import annotations

import numpy as np
import pytest

from services.inference.backends.base import SlotWeight
from services.inference.backends.torch_backend import TorchBackend
from tests.support.backend_streams import (
    Stream,
    decode,
    give_blocks,
    prefill,
    random_tokens,
    use,
)
from tests.support.peft_adapters import KINDS, merged_logits, peft_logits, save_tiny_decoder
from tests.unit.inference_backend.conftest import Tiny, load_backend

TOLERANCE = 1e-4


def all_logits(backend: TorchBackend, stream: Stream) -> np.ndarray:
    """Logits after every token of the prompt: the first half prefilled, the rest token by token."""
    give_blocks([stream], len(stream.prompt))
    half = len(stream.prompt) // 2
    rows = []
    for end in range(1, half + 1):
        # One growing prefill a row: the head sees only the last token of a chunk.
        stream.cached = 0
        rows.append(backend.forward([stream.chunk(stream.prompt[:end])])[0])
    for token in stream.prompt[half:]:
        rows.append(backend.forward([stream.chunk(np.array([token], dtype=np.int32))])[0])
    return np.stack(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_adapter_equals_peft_A01(kind: str, tiny: Tiny, backend: TorchBackend):
    prompt = random_tokens(40, tiny.model.vocab_size)
    expected = peft_logits(tiny.directory, tiny.adapters[kind], prompt)
    base = peft_logits(tiny.directory, None, prompt)
    actual = all_logits(backend, Stream(prompt, use(tiny.slot(kind))))
    assert np.abs(actual - expected).max() < TOLERANCE
    # The adapter matters: the tolerance could not be met by serving the base.
    assert np.abs(expected - base).max() > 100 * TOLERANCE


def test_the_base_equals_transformers(tiny: Tiny, backend: TorchBackend):
    prompt = random_tokens(40, tiny.model.vocab_size)
    expected = peft_logits(tiny.directory, None, prompt)
    assert np.abs(all_logits(backend, Stream(prompt)) - expected).max() < TOLERANCE


@pytest.mark.parametrize(
    ("tied", "scaling"),
    [
        (False, None),
        (True, {"rope_type": "linear", "factor": 4.0}),
        (
            True,
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        ),
    ],
    ids=["separate head", "linear rope scaling", "llama3 rope scaling"],
)
def test_variants_of_the_decoder_equal_transformers(tmp_path, tied: bool, scaling):
    save_tiny_decoder(tmp_path, tied=tied, rope_scaling=scaling)
    prompt = random_tokens(100, 256)
    actual = all_logits(load_backend(tmp_path), Stream(prompt))
    assert np.abs(actual - peft_logits(tmp_path, None, prompt)).max() < TOLERANCE


@pytest.mark.parametrize("length", [5, 40], ids=["few rows", "many rows"])
@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.3, 1.7), (2.0, 0.25)])
def test_two_weighted_adapters_in_one_row_equal_the_sum_of_their_updates(
    shares: tuple[float, float], length: int, tiny: Tiny, backend: TorchBackend
):
    kinds = ("plain", "rank and alpha patterns")
    prompt = random_tokens(length, tiny.model.vocab_size)
    parts = [(tiny.weights(kind), share) for kind, share in zip(kinds, shares, strict=True)]
    expected = merged_logits(tiny.directory, parts, prompt)
    adapters = tuple(SlotWeight(tiny.slot(k), s) for k, s in zip(kinds, shares, strict=True))
    assert np.abs(all_logits(backend, Stream(prompt, adapters)) - expected).max() < TOLERANCE


def test_strength_scales_the_update(tiny: Tiny, backend: TorchBackend):
    prompt = random_tokens(40, tiny.model.vocab_size)
    for strength in (0.5, 2.0):
        expected = merged_logits(tiny.directory, [(tiny.weights("plain"), strength)], prompt)
        stream = Stream(prompt, use(tiny.slot("plain"), strength))
        assert np.abs(all_logits(backend, stream) - expected).max() < TOLERANCE


def test_different_target_sets_in_one_batch_A18(tiny: Tiny, backend: TorchBackend):
    kinds = ("query and value only", "gate, up and down only", "rslora 64", "one layer")
    prompts = [random_tokens(30 + 3 * i, tiny.model.vocab_size, seed=i) for i in range(4)]
    streams = [Stream(p, use(tiny.slot(k))) for p, k in zip(prompts, kinds, strict=True)]
    streams.append(Stream(random_tokens(20, tiny.model.vocab_size, seed=9)))
    give_blocks(streams, 64)
    prefill(backend, streams)
    for step, logits in enumerate(decode(backend, streams, 3)):
        for stream, kind, row in zip(streams, (*kinds, None), logits, strict=True):
            seen = np.concatenate((stream.prompt, np.array(stream.output[: step + 1], np.int32)))
            adapter = None if kind is None else tiny.adapters[kind]
            expected = peft_logits(tiny.directory, adapter, seen)[-1]
            assert np.abs(row - expected).max() < TOLERANCE
