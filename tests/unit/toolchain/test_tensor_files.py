"""The streaming safetensors reader and writer agree with the library and refuse damage."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.tensor_files import open_tensors, write_float32


class Counter:
    def __init__(self) -> None:
        self.done = 0

    def advance(self, amount: int, note: str = "") -> None:
        self.done += amount


def values(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_library_reads_what_we_write(tmp_path: Path) -> None:
    tensors = {"b": values(3, 4), "a": values(5)}
    bar = Counter()
    path = tmp_path / "model.safetensors"
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    write_float32(path, shapes, iter(tensors.items()), bar)
    loaded = safetensors.numpy.load_file(path)
    assert loaded.keys() == tensors.keys()
    assert all(np.array_equal(loaded[name], tensors[name]) for name in tensors)
    assert bar.done == 17


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_we_read_what_the_library_writes(tmp_path: Path, dtype: torch.dtype) -> None:
    original = torch.randn(7, 3).to(dtype)
    safetensors.torch.save_file({"w": original, "s": original[0].clone()}, tmp_path / "m")
    stored = open_tensors(tmp_path / "m")
    assert np.array_equal(stored["w"].float32(), original.float().numpy())
    assert np.array_equal(stored["w"].float32(slice(2, 5)), original[2:5].float().numpy())
    assert stored["s"].shape == (3,)


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_cut_file_is_refused(tmp_path: Path, keep: int) -> None:
    safetensors.numpy.save_file({"w": values(8, 8)}, tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(whole[:keep])
    with pytest.raises(ToolchainError, match=r"copy (it|the file) again"):
        open_tensors(tmp_path / "m")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [2], "data_offsets": [2**40, 2**40 + 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2]},
        {"dtype": [], "shape": [2], "data_offsets": [0, 8]},
        {"dtype": {}, "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "\ud800", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": ["0", "8"]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [[2]], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2**70], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2**70, 0], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]},
        ["no", "object"],
    ],
)
def test_lying_header_is_refused(tmp_path: Path, entry: object) -> None:
    header = json.dumps({"w": entry}).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ToolchainError) as caught:
        open_tensors(tmp_path / "m")
    str(caught.value).encode()  # fit for a terminal


@pytest.mark.parametrize("header", [b"[1]", b"5", b"[" * 300_000, b'{"w":' * 300_000])
def test_header_that_is_no_table_is_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ToolchainError, match="broken header"):
        open_tensors(tmp_path / "m")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([("a", values(2))], "tensor b is missing"),
        ([("a", values(3))], "unexpected"),
        ([("b", values(2))], "unexpected"),
        ([("a", values(2)), ("b", values(2)), ("c", values(2))], "unexpected"),
        ([("a", np.array([1.0, np.nan], np.float32))], "NaN or infinity"),
        ([("a", np.array([1.0, np.inf], np.float32))], "NaN or infinity"),
    ],
)
def test_other_tensors_than_announced_are_refused(
    tmp_path: Path, tensors: list[tuple[str, np.ndarray]], message: str
) -> None:
    with pytest.raises(ToolchainError, match=message):
        write_float32(tmp_path / "m", {"a": (2,), "b": (2,)}, tensors, Counter())
