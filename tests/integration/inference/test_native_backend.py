"""The native back end on its own: the file it maps, what it tells, and what it refuses."""

import dataclasses

import numpy as np
import pytest

from edgelora.adapter_format.codec import decode
from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from services.chassis.base_model import NATIVE_FILE, BaseModel, file_digest
from services.inference.backends.base import (
    BackendLimits,
    EncodedAdapter,
    SequenceChunk,
    SlotWeight,
    UnfitAdapterError,
)
from services.inference.backends.native_backend import NativeBackend
from tests.support.encoded_adapters import encoded_for
from tests.support.native_engine import write_native_model

pytestmark = pytest.mark.integration

LIMITS = BackendLimits(num_kv_blocks=4, block_size=16, max_loras=1, max_lora_rank=4)


@pytest.fixture
def directory(tmp_path):
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)
    write_native_model(tmp_path)
    return tmp_path


def loaded(directory, limits=LIMITS, **settings):
    backend = NativeBackend(num_threads=1, **settings)
    backend.load_model(directory, limits)
    return backend


def describe(directory, **changes):
    """Saves the model's description with changes."""
    dataclasses.replace(BaseModel.load(directory), **changes).save(directory)


def logits(backend, slots=()):
    chunk = SequenceChunk(
        token_ids=np.array([1, 2, 3], dtype=np.int32),
        start_position=0,
        block_table=[0],
        adapters=tuple(SlotWeight(slot, 1.0) for slot in slots),
        needs_logits=True,
    )
    return backend.forward([chunk])


def test_columns_that_only_fill_the_packed_vocabulary_are_cut_off(directory):
    whole = logits(loaded(directory))
    describe(directory, vocab_size=250)
    cut = logits(loaded(directory))
    assert whole.shape == (1, 256)
    np.testing.assert_array_equal(cut, whole[:, :250])


@pytest.mark.parametrize("is_int8", [False, True])
def test_the_bytes_of_a_token_are_those_of_the_cache(directory, is_int8):
    (directory / "config.json").write_text('{"num_attention_heads": 4, "num_key_value_heads": 2}')
    backend = loaded(directory, kv_cache_int8=is_int8)
    tokens = LIMITS.num_kv_blocks * LIMITS.block_size
    assert backend.telemetry().kv_cache_bytes == tokens * backend.kv_bytes_per_token(directory)


@pytest.mark.parametrize("content", ["[]", "{}", '{"num_attention_heads": "four"}'])
def test_a_configuration_of_a_wrong_shape_is_refused(directory, content):
    (directory / "config.json").write_text(content)
    backend = NativeBackend(num_threads=1, kv_cache_int8=True)
    with pytest.raises(ValueError, match=r"config\.json .*prepare"):
        backend.kv_bytes_per_token(directory)


def test_an_8_bit_cache_answers_nearly_the_same(directory):
    exact, rounded = logits(loaded(directory)), logits(loaded(directory, kv_cache_int8=True))
    error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.05


@pytest.mark.parametrize(
    "changes",
    [{"vocab_size": 257}, {"hidden_size": 128}, {"num_layers": 3}, {"max_context_tokens": 129}],
)
def test_a_packed_file_of_another_model_is_refused(directory, changes):
    describe(directory, **changes)
    with pytest.raises(ValueError, match="is of another model: prepare the model again"):
        loaded(directory)


def test_a_packed_file_that_was_changed_is_refused_before_it_is_mapped(directory):
    path = directory / NATIVE_FILE
    path.write_bytes(b"GGUF" + path.read_bytes()[4:])
    with pytest.raises(ValueError, match="is not what was prepared"):
        loaded(directory)


def test_a_packed_file_whose_digest_is_right_and_content_is_not_is_refused(directory):
    path = directory / NATIVE_FILE
    path.write_bytes(path.read_bytes()[:5000])
    describe(directory, files={NATIVE_FILE: file_digest(path)})
    with pytest.raises(ValueError, match="prepare the model again"):
        loaded(directory)


def test_blocks_of_another_size_are_refused(directory):
    with pytest.raises(ValueError, match="block size of 16 tokens"):
        loaded(directory, dataclasses.replace(LIMITS, block_size=32))


@pytest.mark.parametrize(
    ("largest", "rank", "told"),
    [(1e7, 1, "too large for half precision"), (np.nan, 1, "not finite"), (1.0, 5, "rank")],
)
def test_an_adapter_no_slot_can_hold_is_unfit_and_the_slot_stays_free(
    directory, largest, rank, told
):
    backend = loaded(directory)
    lora_a = np.ones((rank, 64), dtype=np.float32)
    lora_b = np.full((64, rank), largest, dtype=np.float32)
    with pytest.raises(UnfitAdapterError, match=told):
        backend.load_adapter(0, AdapterWeights({(0, "v_proj"): LoraPair(lora_a, lora_b, 1.0)}))
    fit = LoraPair(lora_a[:1], np.ones((64, 1), dtype=np.float32), 1.0)
    backend.load_adapter(0, AdapterWeights({(0, "v_proj"): fit}))


def test_an_encoded_adapter_answers_as_its_factors_and_tells_its_bytes(directory):
    backend = loaded(directory, dataclasses.replace(LIMITS, max_loras=2))
    data = encoded_for("llama", 4, has_only_ends=True)
    sizes = [
        backend.load_adapter(0, EncodedAdapter(data)),
        backend.load_adapter(1, decode(data)),
    ]
    assert sizes[0] == sizes[1] <= backend.telemetry().adapter_slots_bytes // 2
    base, encoded, factors = (logits(backend, slots) for slots in ((), (0,), (1,)))
    np.testing.assert_array_equal(encoded, factors)
    assert np.abs(encoded - base).max() > 0.01


def test_a_damaged_encoded_adapter_is_unfit(directory):
    backend = loaded(directory)
    with pytest.raises(UnfitAdapterError, match="damaged"):
        backend.load_adapter(0, EncodedAdapter(encoded_for("llama", 4)[:-1]))


def test_any_number_of_threads_gives_the_same_bits_and_is_told(directory):
    backend = NativeBackend(num_threads=3)
    backend.load_model(directory, LIMITS)
    whole = logits(backend)
    for count in (1, 3, 2):
        backend.set_num_threads(count)
        assert backend.num_threads == count
        np.testing.assert_array_equal(logits(backend), whole)
