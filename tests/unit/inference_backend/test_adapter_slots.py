"""Loading and unloading adapters: what a slot holds, and what it must never touch."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from edgelora.adapter_format import AdapterWeights, LoraPair
from edgelora.adapter_format.codec import decode as decode_adapter
from services.inference.backends.base import BackendLimits, EncodedAdapter
from services.inference.backends.torch_backend import TorchBackend
from tests.support.backend_streams import (
    BLOCK_SIZE,
    Stream,
    decode,
    generate,
    give_blocks,
    prefill,
    random_tokens,
    use,
)
from tests.support.encoded_adapters import random_encoded
from tests.unit.inference_backend.conftest import LIMITS, Tiny, load_backend

VOCAB = 256


def base_digest(backend: TorchBackend) -> str:
    """SHA-256 over every base tensor in memory."""
    weights = backend._weights
    tensors = [weights.embed_tokens, weights.norm, weights.head.dense_weight()]
    for layer in weights.layers:
        tensors += [layer.attention_norm, layer.mlp_norm]
        tensors += [x.dense_weight() for x in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def absurd(weights: AdapterWeights) -> AdapterWeights:
    """The adapter with finite values so large that every product with them overflows."""
    return AdapterWeights(
        {
            key: LoraPair(pair.lora_a * np.float32(3e38), pair.lora_b * np.float32(3e38), 100.0)
            for key, pair in weights.pairs.items()
        }
    )


def decoded(backend: TorchBackend, stream: Stream, steps: int = 6) -> np.ndarray:
    """Logits of a few decode steps of one stream alone."""
    give_blocks([stream], 64)
    prefill(backend, [stream])
    return np.stack(list(decode(backend, [stream], steps)))


def test_the_base_weights_keep_their_digest_through_load_use_unload_A13_I7(tiny: Tiny):
    backend = load_backend(tiny.directory)
    file = tiny.directory / "model.safetensors"
    before = base_digest(backend), hashlib.sha256(file.read_bytes()).hexdigest()
    base = decoded(backend, Stream(random_tokens(20, VOCAB)))
    for slot, kind in enumerate(tiny.adapters):
        backend.load_adapter(slot, tiny.weights(kind))
        generate(backend, [Stream(random_tokens(20, VOCAB), use(slot))], 8)
        backend.unload_adapter(slot)
    assert (base_digest(backend), hashlib.sha256(file.read_bytes()).hexdigest()) == before
    assert np.array_equal(decoded(backend, Stream(random_tokens(20, VOCAB))), base)


def test_an_unloaded_slot_changes_nothing(tiny: Tiny, backend: TorchBackend):
    base = decoded(backend, Stream(random_tokens(20, VOCAB)))
    assert not np.array_equal(decoded(backend, Stream(random_tokens(20, VOCAB), use(0))), base)
    backend.unload_adapter(0)
    assert np.array_equal(decoded(backend, Stream(random_tokens(20, VOCAB), use(0))), base)


def test_a_slot_keeps_nothing_of_a_larger_adapter_before(tiny: Tiny):
    fresh = load_backend(tiny.directory)
    used = load_backend(tiny.directory)
    # Absurd, so that a leftover factor shows even against a partner of zeros.
    for kind in ("rslora 64", "rank and alpha patterns", "plain"):
        used.load_adapter(3, absurd(tiny.weights(kind)))
    used.load_adapter(3, tiny.weights("query and value only"))
    fresh.load_adapter(3, tiny.weights("query and value only"))
    # The neighbour makes the step read all 64 ranks of slot 3 as well.
    for backend in (fresh, used):
        backend.load_adapter(4, tiny.weights("rslora 64"))
    logits = []
    for backend in (fresh, used):
        streams = [Stream(random_tokens(9, VOCAB), use(slot)) for slot in (3, 4)]
        give_blocks(streams, 64)
        prefill(backend, streams)
        logits.append(np.stack(list(decode(backend, streams, 6))))
    assert np.array_equal(logits[0], logits[1])


@pytest.mark.parametrize("rows", ["decode", "prefill"])
def test_absurd_but_finite_weights_spoil_only_their_own_rows_A15(
    rows: str, tiny: Tiny, backend: TorchBackend
):
    length = 8 if rows == "decode" else 30
    prompts = [random_tokens(length, VOCAB, seed=index) for index in range(4)]
    slots = [None, 0, 11, 6]
    logits = []
    for weights in (tiny.weights("plain"), absurd(tiny.weights("plain"))):
        backend.load_adapter(11, weights)
        streams = [
            Stream(p, () if s is None else use(s)) for p, s in zip(prompts, slots, strict=True)
        ]
        give_blocks(streams, 64)
        prefill(backend, streams)
        logits.append(np.stack(list(decode(backend, streams, 8))))
    assert not np.isfinite(logits[1][:, 2]).any()
    for index in (0, 1, 3):
        assert np.array_equal(logits[1][:, index], logits[0][:, index])


@pytest.mark.parametrize("length", [8, 30], ids=["few rows", "many rows"])
def test_strength_zero_reads_nothing_of_an_adapter(length: int, tiny: Tiny, backend: TorchBackend):
    backend.load_adapter(11, absurd(tiny.weights("plain")))
    base = decoded(backend, Stream(random_tokens(length, VOCAB)))
    assert np.array_equal(
        decoded(backend, Stream(random_tokens(length, VOCAB), use(11, 0.0))), base
    )


def test_freed_blocks_never_reach_a_later_sequence_T12(tiny: Tiny):
    limits = BackendLimits(num_kv_blocks=8, block_size=BLOCK_SIZE, max_loras=1, max_lora_rank=8)
    clean, poisoned = (load_backend(tiny.directory, limits) for _ in range(2))
    poisoned.load_adapter(0, absurd(tiny.weights("plain")))
    # Fills every block with keys and values that are not numbers.
    filler = Stream(random_tokens(127, VOCAB), use(0))
    give_blocks([filler], 128)
    prefill(poisoned, [filler])
    (logits,) = decode(poisoned, [filler], 1)
    assert not np.isfinite(logits).any()
    poisoned.unload_adapter(0)

    results = []
    for backend in (clean, poisoned):
        streams = [Stream(random_tokens(n, VOCAB, seed=n)) for n in (1, 18, 16)]
        # Blocks of different number: the short streams are filled up, the last ones are part full.
        for stream, blocks in zip(streams, ((5, 2), (7, 0, 3), (1, 6)), strict=True):
            stream.blocks = blocks
        prefill(backend, streams, 10)
        results.append(np.stack(list(decode(backend, streams, 12))))
    assert np.isfinite(results[1]).all()
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("key", "shape_a", "shape_b", "told"),
    [
        ((0, "q_proj"), (65, 64), (64, 65), "layer 0 q_proj has rank 65, the slots hold 1 to 64"),
        ((0, "q_proj"), (0, 64), (64, 0), "layer 0 q_proj has rank 0"),
        ((0, "k_proj"), (4, 65), (32, 4), r"A \[4, 65\] and B \[32, 4\].* \[4, 64\] and \[32, 4\]"),
        ((2, "k_proj"), (4, 64), (64, 4), r"layer 2 k_proj .*B \[64, 4\]"),
        ((3, "q_proj"), (4, 64), (64, 4), "layer 3 q_proj does not exist in tiny"),
        ((0, "lm_head"), (4, 64), (64, 4), "layer 0 lm_head does not exist in tiny"),
    ],
)
def test_an_adapter_that_does_not_fit_leaves_the_slot_as_it_was_A03(
    key, shape_a, shape_b, told, tiny: Tiny, backend: TorchBackend
):
    before = decoded(backend, Stream(random_tokens(20, VOCAB), use(0)))
    bad = LoraPair(np.ones(shape_a, np.float32), np.ones(shape_b, np.float32), 1.0)
    weights = AdapterWeights({**tiny.weights("rslora 16").pairs, key: bad})
    with pytest.raises(ValueError, match=told):
        backend.load_adapter(0, weights)
    assert np.array_equal(decoded(backend, Stream(random_tokens(20, VOCAB), use(0))), before)


def test_slots_out_of_range_are_refused(tiny: Tiny, backend: TorchBackend):
    for slot in (-1, LIMITS.max_loras):
        with pytest.raises(ValueError, match=f"slot is {slot}, there are 12"):
            backend.load_adapter(slot, tiny.weights("plain"))
        with pytest.raises(ValueError, match=f"slot is {slot}, there are 12"):
            backend.unload_adapter(slot)
        stream = Stream(random_tokens(3, VOCAB), use(slot), blocks=(0,))
        with pytest.raises(ValueError, match=f"slot is {slot}, there are 12"):
            backend.forward([stream.chunk(stream.prompt)])


def test_memory_does_not_grow_with_loads_Q06(tiny: Tiny, backend: TorchBackend):
    before = backend.telemetry()
    for _ in range(20):
        backend.load_adapter(0, tiny.weights("rslora 64"))
        backend.unload_adapter(0)
    assert backend.telemetry() == before
    # 3 layers: A reads 3x64 + 96 inputs times 64 ranks, B writes 448 outputs.
    outputs = sum(out for out, _ in tiny.model.targets.values())
    inputs = sum(inputs for _, inputs in tiny.model.targets.values())
    assert before.adapter_slots_bytes == 4 * 3 * LIMITS.max_loras * 64 * (inputs + outputs)
    assert before.kv_cache_bytes == 4 * 3 * (128 + 1) * BLOCK_SIZE * 2 * 32


def test_an_encoded_adapter_answers_as_its_factors_and_tells_its_bytes(tiny: Tiny):
    backend = load_backend(tiny.directory)
    shapes = {
        name: shape
        for name, shape in tiny.model.targets.items()
        if not any(size % 32 for size in shape)
    }
    ranks = {(0, name): 3 + number for number, name in enumerate(shapes)}
    data = random_encoded(ranks, shapes)
    sizes = [
        backend.load_adapter(0, EncodedAdapter(data)),
        backend.load_adapter(1, decode_adapter(data)),
    ]
    assert sizes[0] == sizes[1]
    assert 0 < sizes[0] <= backend.telemetry().adapter_slots_bytes // LIMITS.max_loras
    base, *adapted = (
        decoded(backend, Stream(random_tokens(20, VOCAB), uses)) for uses in ((), use(0), use(1))
    )
    np.testing.assert_array_equal(adapted[0], adapted[1])
    assert not np.array_equal(adapted[0], base)
