"""`--quant` of `edgelora model prepare`: what the packed file then holds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import safetensors.numpy
from click.testing import CliRunner

from edgelora.cli.main import cli
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.rounding import QUANTISATIONS, HalfPrecision, PlainRounding, make_rounding
from services.chassis.base_model import BaseModel
from services.inference.backends.base import BackendLimits, SequenceChunk
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.torch_backend import TorchBackend
from tests.support.tiny_families import VOCAB_SIZE, save_gguf, tiny_model

matrices = pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from tests.support.packed_file import PackedFile  # noqa: E402

pytestmark = pytest.mark.integration

Type = gguf.GGMLQuantizationType
PACKED = "model.edgelora"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.gguf"
    save_gguf(tiny_model("qwen3"), path, kind=Type.F32)
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m"


def test_none_is_bfloat16_everywhere_but_for_norms(tmp_path: Path, source: Path, directory: Path):
    prepare(source, tmp_path, "m", weights="both", rounding=HalfPrecision())
    packed = PackedFile.read(directory / PACKED)
    head, norm, _, _ = packed.model
    assert isinstance(head, matrices.HalfMatrix)
    assert isinstance(norm, np.ndarray)
    for _, qkv, output, _, gate_up, down, *_ in packed.layers:
        for matrix in (qkv, output, gate_up, down):
            assert isinstance(matrix, matrices.HalfMatrix)
    exact = safetensors.numpy.load_file(directory / "model.safetensors")
    for name, values in packed.weights(VOCAB_SIZE).items():
        wanted = exact.get(name, exact["model.embed_tokens.weight"])
        rounded = wanted if "norm" in name else matrices.to_half(wanted).dequantise()
        np.testing.assert_array_equal(values, rounded, err_msg=name)


def logits(backend, directory: Path) -> np.ndarray:
    backend.load_model(
        directory, BackendLimits(num_kv_blocks=2, block_size=16, max_loras=1, max_lora_rank=4)
    )
    chunk = SequenceChunk(
        token_ids=np.arange(20, dtype=np.int32),
        start_position=0,
        block_table=(0, 1),
        adapters=(),
        needs_logits=True,
    )
    return backend.forward([chunk])


def test_none_is_close_to_float32_where_plain_is_not(tmp_path: Path, source: Path, directory: Path):
    prepare(source, tmp_path, "m", weights="both")
    exact = logits(TorchBackend(num_threads=1), directory)
    errors = {}
    for name in QUANTISATIONS:
        prepare(source, tmp_path, "m", weights="native", rounding=make_rounding(name))
        error = logits(NativeBackend(num_threads=1), directory) - exact
        errors[name] = np.linalg.norm(error) / np.linalg.norm(exact)
    assert errors["none"] < 0.01 < errors["plain"], errors


def test_another_rounding_writes_native_weights_anew_and_nothing_else(
    tmp_path: Path, source: Path, directory: Path
):
    plain = prepare(source, tmp_path, "m", weights="both")
    assert plain.quantisation == "plain"
    half = prepare(source, tmp_path, "m", rounding=HalfPrecision())
    assert (half.quantisation, half.digest) == ("none", plain.digest)
    assert half.files["model.safetensors"] == plain.files["model.safetensors"]
    half.verify_file(directory, PACKED)
    for rounding in (None, HalfPrecision()):
        before = (directory / PACKED).stat()
        assert prepare(source, tmp_path, "m", weights="both", rounding=rounding) == half
        assert (directory / PACKED).stat() == before
    assert prepare(source, tmp_path, "m", rounding=PlainRounding()) == plain
    assert BaseModel.load(directory) == plain


def test_damaged_weights_are_written_again_as_they_were(
    tmp_path: Path, source: Path, directory: Path
):
    half = prepare(source, tmp_path, "m", weights="native", rounding=HalfPrecision())
    (directory / PACKED).write_bytes(b"damaged")
    assert prepare(source, tmp_path, "m", weights="native") == half
    half.verify_file(directory, PACKED)


def test_a_rounding_without_native_weights_is_refused(tmp_path: Path, source: Path):
    with pytest.raises(ToolchainError, match="--quant rounds native weights"):
        prepare(source, tmp_path, "m", weights="float32", rounding=PlainRounding())
    assert not (tmp_path / "models").exists()


def test_the_command_rounds_and_says_so(tmp_path: Path, source: Path):
    words = ["model", "prepare", str(source), "--name", "m", "--home", str(tmp_path)]
    said = CliRunner().invoke(cli, [*words, "--quant", "none"])
    assert said.exit_code == 0, said.output
    assert "native (--quant none) weights" in said.stdout
    listed = CliRunner().invoke(cli, ["model", "list", "--json", "--home", str(tmp_path)])
    assert [one["quantisation"] for one in json.loads(listed.stdout)] == ["none"]


def test_weights_rounded_with_calibration_are_not_guessed(
    tmp_path: Path, source: Path, directory: Path
):
    plain = prepare(source, tmp_path, "m", weights="native")
    dataclasses.replace(plain, quantisation="mixed").save(directory)
    assert prepare(source, tmp_path, "m", weights="native").quantisation == "mixed"
    prepare(source, tmp_path, "m", weights="float32")
    (directory / PACKED).write_bytes(b"damaged")
    with pytest.raises(ToolchainError, match=r"rounded with calibration.*give --quant"):
        prepare(source, tmp_path, "m", weights="native")
    again = prepare(source, tmp_path, "m", weights="native", rounding=PlainRounding())
    assert again.files[PACKED] == plain.files[PACKED]
