"""What the torch back end refuses to load or to run, and its bfloat16 mode."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from services.chassis.base_model import BaseModel, file_digest
from services.inference.backends.base import SequenceChunk
from services.inference.backends.torch_backend import TorchBackend
from services.inference.backends.torch_linear import FrozenLinear
from tests.support.backend_streams import (
    Stream,
    decode,
    generate,
    give_blocks,
    prefill,
    random_tokens,
    use,
)
from tests.support.peft_adapters import save_tiny_decoder
from tests.unit.inference_backend.conftest import LIMITS, Tiny, load_backend


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_tiny_decoder(tmp_path)
    return tmp_path


def change_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))


def change_tensors(directory: Path, **changes: torch.Tensor | None) -> None:
    path = directory / "model.safetensors"
    tensors = {**load_file(path), **changes}
    save_file({k: v.clone() for k, v in tensors.items() if v is not None}, path)
    # As if it had been prepared so: the digest is not what these tests are about.
    model = BaseModel.load(directory)
    replace(model, files={path.name: file_digest(path)}).save(directory)


def test_this_machine_can_run_it():
    assert TorchBackend.probe() is None


def test_a_directory_that_was_not_prepared_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_backend(tmp_path)


def test_missing_weights_are_refused(directory):
    (directory / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"run `edgelora model prepare .*--weights float32`"):
        load_backend(directory)


def test_weights_that_are_not_the_prepared_ones_are_refused(directory):
    path = directory / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"not what was prepared: run .*--weights float32`"):
        load_backend(directory)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hidden_act": "gelu"}, "config.json: hidden_act must be 'silu'"),
        ({"num_attention_heads": None}, "config.json lacks 'num_attention_heads'"),
        ({"rope_parameters": {"rope_type": "su", "factor": 2.0}}, "type 'su' is not supported"),
        ({"model_type": "gemma"}, "'gemma' is not supported; supported: llama, mistral"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused(directory, changes, told):
    change_config(directory, **changes)
    with pytest.raises(ValueError, match=told):
        load_backend(directory)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model.norm.weight": None}, "lacks tensor 'model.norm.weight'"),
        (
            {"model.norm.weight": torch.ones(65)},
            r"'model.norm.weight' has shape \[65\], not \[64\]",
        ),
        (
            {"model.layers.1.self_attn.q_norm.weight": torch.ones(16)},
            "'model.layers.1.self_attn.q_norm.weight' is none of a llama decoder",
        ),
    ],
)
def test_weights_that_are_no_llama_decoder_are_refused(directory, changes, told):
    change_tensors(directory, **changes)
    with pytest.raises(ValueError, match=told):
        load_backend(directory)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"num_threads": 0}, "num_threads is 0"),
        ({"num_threads": 1, "dtype": torch.float16}, "dtype is torch.float16"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        TorchBackend(**arguments)


@pytest.mark.parametrize(
    ("tokens", "start", "blocks", "told"),
    [
        (17, 0, (0,), "positions 0 to 17, its blocks hold 16, the context 128"),
        (1, 32, (0, 1), "positions 32 to 33, its blocks hold 32"),
        (1, 128, tuple(range(9)), "positions 128 to 129, its blocks hold 144, the context 128"),
        (0, 3, (0,), "positions 3 to 3"),
    ],
)
def test_a_chunk_beyond_its_blocks_or_the_context_is_refused(tokens, start, blocks, told, tiny):
    chunk = SequenceChunk(
        token_ids=np.zeros(tokens, np.int32),
        start_position=start,
        block_table=blocks,
        adapters=(),
        needs_logits=True,
    )
    with pytest.raises(ValueError, match=re.escape(told)):
        load_backend(tiny.directory).forward([chunk])


@pytest.mark.parametrize("block", [-1, 128])
def test_a_block_that_does_not_exist_is_refused(block, tiny):
    stream = Stream(random_tokens(3, 256), blocks=(block,))
    with pytest.raises(ValueError, match="beyond 0 to 127"):
        load_backend(tiny.directory).forward([stream.chunk(stream.prompt)])


def test_a_step_without_chunks_is_refused(tiny):
    with pytest.raises(ValueError, match="at least one chunk"):
        load_backend(tiny.directory).forward([])


def test_logits_come_only_for_the_chunks_that_want_them_in_their_order(tiny, backend):
    prompts = [random_tokens(10 + i, 256, seed=i) for i in range(4)]
    rows = []
    for wanted in ((True,) * 4, (False, True, False, True), (False,) * 4):
        streams = [Stream(p, use(3 - i)) for i, p in enumerate(prompts)]
        give_blocks(streams, 32)
        chunks = [
            stream.chunk(stream.prompt, needs_logits=want)
            for stream, want in zip(streams, wanted, strict=True)
        ]
        rows.append(backend.forward(chunks))
    assert rows[0].dtype == np.float32
    assert np.array_equal(rows[1], rows[0][[1, 3]])
    assert rows[2].shape == (0, 256)


@pytest.mark.parametrize("in_features", [64, 576, 1536])
def test_a_row_is_the_same_alone_and_beside_another(in_features: int):
    torch.manual_seed(1)
    linear = FrozenLinear(torch.randn(576, in_features))
    row = torch.randn(1, in_features)
    assert torch.equal(linear(row), linear(torch.cat((row, torch.randn(1, in_features))))[:1])


def test_bfloat16_stays_near_float32(tiny: Tiny):
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        backend = TorchBackend(num_threads=1, dtype=dtype)
        backend.load_model(tiny.directory, LIMITS)
        backend.load_adapter(0, tiny.weights("rank and alpha patterns"))
        streams = [
            Stream(random_tokens(n, 256, seed=n), a) for n, a in ((25, use(0, 0.5)), (9, ()))
        ]
        give_blocks(streams, 64)
        prefill(backend, streams)
        for stream in streams:
            stream.output = [17]
        (logits,) = decode(backend, streams, 1)
        results.append(logits)
    difference = np.abs(results[0] - results[1]).max(axis=1) / results[0].std(axis=1)
    assert (difference > 0).all()
    assert (difference < 0.2).all()


def test_float32_and_repeated_runs_are_the_same(tiny: Tiny, backend: TorchBackend):
    first = generate(backend, [Stream(random_tokens(20, 256), use(2))], 20)
    assert generate(backend, [Stream(random_tokens(20, 256), use(2))], 20) == first
