"""The forms of a prepared model's weights: what they hold, and how one joins another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
import safetensors.numpy
import torch

from edgelora.toolchain import weight_forms
from edgelora.toolchain.chat_data import write_conversations
from edgelora.toolchain.errors import ModelExistsError, ToolchainError
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.train import TrainingJob, train
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.wheel import default_gguf
from services.chassis.base_model import BaseModel
from services.inference.backends.base import BackendLimits
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.torch_backend import TorchBackend
from tests.support.prepared_model import home, prepared_model
from tests.support.tiny_families import VOCAB_SIZE, save_directory, save_gguf, tiny_model

matrices = pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from tests.support.packed_file import PackedFile  # noqa: E402

Matrix4, Matrix8 = matrices.Matrix4, matrices.Matrix8
pytestmark = pytest.mark.integration

Type = gguf.GGMLQuantizationType
LIMITS = BackendLimits(num_kv_blocks=8, block_size=16, max_loras=1, max_lora_rank=4)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.gguf"
    save_gguf(tiny_model("llama"), path)
    return path


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.stat().st_ino, p.read_bytes()) for p in directory.iterdir()}


@pytest.mark.parametrize(("first", "second"), [("native", "float32"), ("float32", "native")])
def test_second_form_joins_and_nothing_else_changes(
    tmp_path: Path, source: Path, first: str, second: str
):
    directory = tmp_path / "models" / "m"
    one = prepare(source, tmp_path, "m", weights=first)
    before = contents(directory)
    both = prepare(source, tmp_path, "m", weights=second)
    assert both.digest == one.digest, "adapters stay bound to the model"
    assert both.files.items() > one.files.items()
    assert BaseModel.load(directory) == both
    after = contents(directory)
    (new,) = after.keys() - before.keys()
    assert new in both.files
    del before["edgelora_model.json"]
    assert before.items() <= after.items()
    for name in both.files:
        both.verify_file(directory, name)
    after = contents(directory)
    for weights in ("native", "float32", "both", None):
        assert prepare(source, tmp_path, "m", weights=weights) == both
    assert contents(directory) == after, "nothing was missing"


def test_both_completes_a_model_with_one(tmp_path: Path, source: Path):
    prepare(source, tmp_path, "m", weights="native")
    assert set(prepare(source, tmp_path, "m", weights="both").files) == {
        "model.edgelora",
        "model.safetensors",
    }


def test_form_of_another_source_does_not_join(tmp_path: Path, source: Path):
    prepare(source, tmp_path, "m", weights="native")
    before = contents(tmp_path / "models" / "m")
    save_gguf(tiny_model("llama", tied=False), tmp_path / "other.gguf")
    with pytest.raises(ModelExistsError, match=r"from another source.*--force"):
        prepare(tmp_path / "other.gguf", tmp_path, "m", weights="float32")
    assert contents(tmp_path / "models" / "m") == before


def test_directory_of_another_release_is_not_touched(tmp_path: Path, source: Path):
    prepare(source, tmp_path, "m", weights="native")
    path = tmp_path / "models" / "m" / "edgelora_model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 1}))
    with pytest.raises(ModelExistsError, match=r"no model of this release.*--force"):
        prepare(source, tmp_path, "m", weights="float32")
    prepare(source, tmp_path, "m", weights="float32", replace=True)
    assert set(BaseModel.load(path.parent).files) == {"model.safetensors"}


ADD = """
import sys
from pathlib import Path
from edgelora.toolchain.prepare import prepare
try:
    prepare(Path(sys.argv[1]), Path(sys.argv[2]), "m", weights="float32")
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_model_stays_whole_when_adding_a_form_is_stopped(tmp_path: Path, signum: int):
    """SIGKILL may leave a partial file, which the next preparation overwrites."""
    path = default_gguf(home() / "cache")
    directory = tmp_path / "models" / "m"
    description = prepare(path, tmp_path, "m", weights="native")
    before = contents(directory)
    process = subprocess.Popen([sys.executable, "-c", ADD, str(path), str(tmp_path)])
    partial = directory / ".model.safetensors.partial"
    deadline = time.monotonic() + 60
    while not (partial.exists() and partial.stat().st_size > 1_000_000):
        assert process.poll() is None, "the form was complete before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signum)
    assert process.wait(30) == (130 if signum == signal.SIGTERM else -signum)
    assert partial.exists() is (signum == signal.SIGKILL)
    assert before.items() <= contents(directory).items()
    assert BaseModel.load(directory) == description
    complete = prepare(path, tmp_path, "m", weights="float32")
    assert not partial.exists()
    complete.verify_file(directory, "model.safetensors")


def test_too_little_room_is_said_before_anything_is_written(
    tmp_path: Path, source: Path, monkeypatch
):
    usage = weight_forms.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(weight_forms.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ToolchainError, match=r"needs up to 0 MB, 0 MB are free: make room"):
        prepare(source, tmp_path, "m")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("kind", [Type.Q4_0, Type.Q4_1, Type.Q8_0])
def test_packed_weights_are_those_of_the_source_bit_for_bit(tmp_path: Path, kind: Type):
    """So the packed model's perplexity is the source's, but for the rounding of activations."""
    save_gguf(tiny_model("llama", tied=False), tmp_path / "m.gguf", kind=kind)
    prepare(tmp_path / "m.gguf", tmp_path, "m", weights="both")
    directory = tmp_path / "models" / "m"
    expected = safetensors.numpy.load_file(directory / "model.safetensors")
    actual = PackedFile.read(directory / "model.edgelora").weights(VOCAB_SIZE)
    assert actual.keys() == expected.keys()
    assert all(np.array_equal(actual[name], expected[name]) for name in expected)


def test_packed_default_model_is_the_source_bit_for_bit():
    directory = prepared_model()
    expected = safetensors.numpy.load_file(directory / "model.safetensors")
    actual = PackedFile.read(directory / "model.edgelora").weights(49152)
    del actual["lm_head.weight"]
    assert actual.keys() == expected.keys()
    assert all(np.array_equal(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16, Type.Q5_0])
def test_finer_sources_keep_8_bit_where_it_matters_most(tmp_path: Path, kind: Type):
    model = tiny_model("llama", tied=False)
    save_gguf(model, tmp_path / "m.gguf", kind=kind)
    prepare(tmp_path / "m.gguf", tmp_path, "m", weights="both")
    directory = tmp_path / "models" / "m"
    packed = PackedFile.read(directory / "model.edgelora")
    head, _, embedding, _ = packed.model
    assert isinstance(head, Matrix8)
    assert isinstance(embedding, Matrix8)
    for _, qkv, output, _, gate_up, down, *_ in packed.layers:
        assert isinstance(qkv, Matrix8)
        assert all(isinstance(one, Matrix4) for one in (output, gate_up, down))
    exact = safetensors.numpy.load_file(directory / "model.safetensors")
    for name, values in packed.weights(VOCAB_SIZE).items():
        error = np.linalg.norm(values - exact[name]) / np.linalg.norm(exact[name])
        is_small = any(part in name for part in ("o_proj", "mlp"))
        assert error < (0.1 if is_small else 0.01), name


def test_a_mixed_source_keeps_what_it_can(tmp_path: Path):
    """As Q4_K_M files are: some matrices coarse, some fine."""
    save_gguf(
        tiny_model("qwen3"),
        tmp_path / "m.gguf",
        kind=Type.Q4_1,
        other_kinds={"attn_v": Type.Q8_0, "token_embd": Type.Q5_1},
    )
    prepare(tmp_path / "m.gguf", tmp_path, "m", weights="native")
    packed = PackedFile.read(tmp_path / "models" / "m" / "model.edgelora")
    assert isinstance(packed.model[0], Matrix8)
    for _, qkv, output, *_ in packed.layers:
        assert isinstance(qkv, Matrix8), "one 8-bit part makes the product 8-bit"
        assert isinstance(output, Matrix4)


NO_TORCH = """
import sys
from pathlib import Path
from edgelora.toolchain.prepare import prepare
gguf, directory, home = map(Path, sys.argv[1:])
for name, source in (("gguf", gguf), ("directory", directory)):
    prepare(source, home, name, weights="both")
found = {name.split(".")[0] for name in sys.modules} & {"torch", "transformers", "peft"}
sys.exit(f"imported: {found}" if found else 0)
"""


def test_preparation_imports_neither_torch_nor_transformers(tmp_path: Path, source: Path):
    save_directory(tiny_model("llama"), tmp_path / "source")
    command = [sys.executable, "-c", NO_TORCH, source, tmp_path / "source", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_default_is_native_where_the_core_is_installed(tmp_path: Path, source: Path, monkeypatch):
    assert set(prepare(source, tmp_path, "here").files) == {"model.edgelora"}
    monkeypatch.setattr(weight_forms, "native_core_obstacle", lambda: "run `make native`")
    assert set(prepare(source, tmp_path, "elsewhere").files) == {"model.safetensors"}
    for weights in ("native", "both"):
        with pytest.raises(ToolchainError, match=r"run `make native`; or use --weights float32"):
            prepare(source, tmp_path, "other", weights=weights)


def test_shape_the_core_cannot_serve_is_prepared_for_torch_only(tmp_path: Path):
    model = tiny_model("llama", intermediate_size=80)
    save_directory(model, tmp_path / "source")
    with pytest.raises(ToolchainError, match=r"feed_forward_size is 80.*--weights float32"):
        prepare(tmp_path / "source", tmp_path, "m", weights="native")
    prepare(tmp_path / "source", tmp_path, "m", weights="float32")


def test_what_needs_the_missing_form_says_how_to_get_it(tmp_path: Path, source: Path):
    prepare(source, tmp_path, "packed", weights="native")
    prepare(source, tmp_path, "plain", weights="float32")
    needs_float32 = r"has no model\.safetensors: run `edgelora model prepare .*--weights float32`"
    with pytest.raises(ValueError, match=needs_float32):
        TorchBackend(num_threads=torch.get_num_threads()).load_model(
            tmp_path / "models" / "packed", LIMITS
        )
    write_conversations(tmp_path / "data.jsonl", [[{"role": "user", "content": "a"}]])
    job = TrainingJob(
        name="x", model_directory=tmp_path / "models" / "packed", train_file=tmp_path / "data.jsonl"
    )
    with pytest.raises(ToolchainError, match=needs_float32):
        train(job, TrainingOptions(), tmp_path / "out")
    with pytest.raises(ValueError, match=r"has no model\.edgelora: run `.* --weights native`"):
        NativeBackend(num_threads=1).load_model(tmp_path / "models" / "plain", LIMITS)


@pytest.mark.parametrize("name", ["model.edgelora", "model.safetensors"])
def test_changed_weights_are_refused_before_they_are_used(tmp_path: Path, source: Path, name: str):
    prepare(source, tmp_path, "m", weights="both")
    directory = tmp_path / "models" / "m"
    data = bytearray((directory / name).read_bytes())
    data[len(data) // 2] ^= 1
    (directory / name).write_bytes(data)
    backend = NativeBackend if name == "model.edgelora" else TorchBackend
    with pytest.raises(ValueError, match=rf"{name} of model m .*which writes it again"):
        backend(num_threads=1).load_model(directory, LIMITS)
    prepare(source, tmp_path, "m", weights="both").verify_file(directory, name)
