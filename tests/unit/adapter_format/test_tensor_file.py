"""The safetensors reader refuses everything that is not exactly right."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as reference_load
from safetensors.numpy import save as reference_save

from edgelora.adapter_format import read_tensors
from edgelora.errors import AdapterRejectedError
from tests.support.adapter_files import bfloat16_bytes, safetensors_bytes, tensors, with_header


def refusal(data: bytes) -> str:
    with pytest.raises(AdapterRejectedError) as caught:
        read_tensors(data)
    assert caught.value.field in ("weights", "adapter_model.safetensors")
    return caught.value.message


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_reads_what_the_reference_library_writes():
    named = {"a": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.ones((3, 1), dtype="<f2")}
    read = read_tensors(reference_save(named, metadata={"format": "pt"}))
    assert set(read) == {"a", "b"}
    for name, values in named.items():
        np.testing.assert_array_equal(read[name], values)


def test_reads_the_same_as_the_reference_library():
    data = safetensors_bytes(tensors())
    ours, theirs = read_tensors(data), reference_load(data)
    assert set(ours) == set(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_bfloat16_is_widened():
    named = {"a": np.array([[1.0, -2.5, 1e30]], dtype="<f4")}
    read = read_tensors(bfloat16_bytes(named))["a"]
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, named["a"], rtol=1 / 128)


def test_views_can_not_write_into_the_file():
    data = bytearray(safetensors_bytes(tensors()))
    view = next(iter(read_tensors(data).values()))
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1


@pytest.mark.parametrize("keep", [0, 7, 8, 9, 100, 0.5, -1])
def test_cut_file_is_refused_A16(keep):
    data = safetensors_bytes(tensors())
    kept = data[: int(len(data) * keep)] if isinstance(keep, float) else data[:keep]
    assert "cut" in refusal(kept) or "missing" in refusal(kept)


@pytest.mark.parametrize("extra", [b"\x00", b"x" * 4096])
def test_bytes_after_the_last_tensor_are_refused(extra):
    assert "belong to none" in refusal(safetensors_bytes(tensors()) + extra)


class Bomb:
    def __reduce__(self):
        return (open, ("pwn-canary", "w"))


def zipped(name: str, data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(name, data)
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        *((pickle.dumps(Bomb(), protocol=p), "pickle") for p in range(2, 6)),
        (zipped("archive/data.pkl", pickle.dumps(Bomb())), "zip"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n", "git lfs"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b'{"error": "Repository not found"}', "JSON"),
        (b"GGUF\x03\x00\x00\x00" + bytes(100), "GGUF"),
        (b"\x1f\x8b\x08" + bytes(100), "gzip"),
    ],
)
def test_foreign_content_is_named_and_never_loaded_X09_A16_T01(data, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told.lower() in refusal(data).lower()
    assert list(tmp_path.iterdir()) == []


def test_the_pickle_would_have_worked_T01_positive_control(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Bomb())).close()
    assert (tmp_path / "pwn-canary").exists()


def test_text_pickle_protocol_0_is_refused_X09(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal(pickle.dumps(Bomb(), protocol=0))
    assert list(tmp_path.iterdir()) == []


def test_header_whose_length_starts_like_a_pickle_is_read():
    header = json.dumps({"a": entry()}).encode().ljust(0x0280)
    data = with_header(header, bytes(4))
    assert data[:2] == b"\x80\x02"
    assert read_tensors(data)["a"] == 0


@pytest.mark.parametrize(
    "header",
    [
        {"t": entry("F99", (1,), (0, 9223372036854775807))},
        {"t": entry("F64", (1,), (0, 8))},
        {"t": entry("I32")},
        {"t": entry("f32")},
        {"t": entry(["F32"])},
        {"t": entry("F32", (1000, 1000), (0, 4))},
        {"a": entry(offsets=(0, 4)), "b": entry(offsets=(0, 4))},
        {"a": entry(offsets=(0, 4)), "b": entry(offsets=(2, 6))},
        {"a": entry(offsets=(4, 8))},
        {"a": entry("F32", (2**62, 4), (0, 0))},
        {"a": entry("F32", (2**40, 2**40), (0, 2**82))},
        {"a": entry("F32", (-1, -1), (0, 4))},
        {"a": entry("F32", (0,), (0, 0))},
        {"a": entry("F32", (), (0, 4))},
        {"a": entry("F32", (1,) * 9, (0, 4))},
        {"a": entry("F32", (True,), (0, 4))},
        {"a": entry("F32", (1.0,), (0, 4))},
        {"a": entry("F32", (1,), (4, 0))},
        {"a": entry("F32", (1,), (0, 4, 8))},
        {"a": entry("F32", (1,), (-4, 0))},
        {"a": {**entry(), "extra": 1}},
        {"a": [1]},
        {"": entry()},
        {"n" * 600: entry()},
        {},
        {"__metadata__": {"a": "b"}},
        {"a": entry(), "__metadata__": {"a": 1}},
        {"a": entry(), "__metadata__": ["x"]},
        {"a": entry(), "__metadata__": {"x": "y" * 70_000}},
    ],
)
def test_lying_header_is_refused_before_any_tensor_is_built_X12_T02(header, monkeypatch):
    def no_tensor(*_args: object) -> None:
        raise AssertionError("a tensor was built")

    monkeypatch.setattr("edgelora.adapter_format.tensor_file._tensor", no_tensor)
    refusal(with_header(header, bytes(4)))


def test_hole_between_tensors_is_refused_X12():
    header = {"a": entry(offsets=(0, 4)), "b": entry(offsets=(8, 12))}
    assert "hole" in refusal(with_header(header, bytes(12)))


def test_overlap_is_refused_X12():
    header = {"a": entry("F32", (2,), (0, 8)), "b": entry("F32", (2,), (4, 12))}
    assert "overlaps" in refusal(with_header(header, bytes(12)))


@pytest.mark.parametrize("length", [0, 1, 2**63, 2**64 - 1, 100_000_001])
def test_header_length_bomb_is_refused_T02(length):
    refusal(length.to_bytes(8, "little") + b'{"a":1}' + bytes(64))


def test_header_over_the_cap_is_refused_T02():
    header = json.dumps({"a": entry()}).encode().ljust((1 << 20) + 1)
    assert "limit" in refusal(with_header(header, bytes(4)))


def test_too_many_tensors_are_refused_T02():
    header = {f"{i}": entry("F32", (1,), (4 * i, 4 * i + 4)) for i in range(10_001)}
    assert "10000" in refusal(with_header(header, bytes(4 * 10_001)))


def test_duplicate_tensor_name_is_refused_T02():
    text = json.dumps(entry())
    header = f'{{"a": {text}, "a": {text}}}'.encode()
    assert "twice" in refusal(with_header(header, bytes(4)))


def test_deep_header_is_refused_T02():
    refusal(with_header(b'{"a":' * 200_000, bytes(4)))


@given(st.data())
def test_any_flip_of_the_header_is_read_or_refused_and_never_crashes(data):
    whole = bytearray(safetensors_bytes(tensors(("q_proj",), num_layers=1)))
    size = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, size - 1))] = data.draw(st.integers(0, 255))
    try:
        read = read_tensors(bytes(whole))
    except AdapterRejectedError as error:
        assert error.field
    else:
        assert sum(values.nbytes for values in read.values()) == len(whole) - size


@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data):
    refusal(data)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "F16", "BF16", "F64", "X"]),
                "shape": st.lists(st.integers(-1, 5), max_size=3),
                "data_offsets": st.lists(st.integers(-4, 64), min_size=1, max_size=3),
            }
        ),
        max_size=4,
    ),
    st.integers(0, 64),
)
def test_any_header_is_exact_or_refused(header, num_bytes):
    try:
        read = read_tensors(with_header(header, bytes(num_bytes)))
    except AdapterRejectedError:
        return
    assert set(read) == set(header)
